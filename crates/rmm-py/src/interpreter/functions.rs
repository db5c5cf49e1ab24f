//! Python functions that the engine holds.

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

use crate::interpreter;

/// Python objects that are released at once where the interpreter still runs.
#[derive(Debug)]
pub(crate) struct Functions<const N: usize>(Option<[Py<PyAny>; N]>);

impl<const N: usize> Functions<N> {
    pub(crate) fn new(functions: [Py<PyAny>; N]) -> Self {
        Self(Some(functions))
    }

    pub(crate) fn get(&self, place: usize) -> Option<&Py<PyAny>> {
        self.0.as_ref()?.get(place)
    }

    pub(crate) fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.iter().flatten().try_for_each(|function| visit.call(function))
    }
}

impl<const N: usize> Drop for Functions<N> {
    fn drop(&mut self) {
        // The engine drops them on any thread.
        let functions = self.0.take();
        let _ended = interpreter::attached(move |_| drop(functions));
    }
}
