//! Callbacks of a pool that is about to refuse a request.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rmm_adaptors::{PoolMemoryResource, Pressure as Engine, PressureCallback as Guard};
use rmm_core::AnyResource;

use crate::callbacks::Functions;
use crate::errors::note_raised;
use crate::kept::Kept;
use crate::resource::make;

/// A request that is about to fail for lack of memory. Not in RMM.
///
/// Attributes
/// ----------
/// requested : int
///     The bytes that were requested, rounded up as the pool does.
/// missing : int
///     The fewest bytes that have to be freed, to the pool or to the device; more if memory is
///     fragmented.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "rmm_rs")]
pub(crate) struct Pressure {
    requested: u64,
    missing: u64,
}

#[pymethods]
impl Pressure {
    fn __repr__(&self) -> String {
        format!("<Pressure: {} bytes requested, {} missing>", self.requested, self.missing)
    }
}

/// Keeps a callback of `PoolMemoryResource.on_pressure` registered: until `remove` is called, the
/// end of a `with` block, or until this object is gone. Not in RMM.
#[derive(Debug)]
#[pyclass(frozen, module = "rmm_rs")]
pub(crate) struct PressureCallback {
    functions: Arc<Functions<1>>,
    guard: Mutex<Option<Kept<Guard>>>,
}

fn has_freed(functions: &Functions<1>, pressure: &Engine<'_>) -> bool {
    let freed = Python::try_attach(|py| {
        let Some(function) = functions.get(0) else { return false };
        // What an upstream callback raised was answered by asking this one.
        note_raised(None);
        let pressure = Pressure { requested: pressure.requested, missing: pressure.missing };
        let answer = function.bind(py).call1((pressure,));
        answer.and_then(|answer| answer.is_truthy()).unwrap_or_else(|raised| {
            note_raised(Some(raised));
            false
        })
    });
    freed.unwrap_or(false)
}

impl PressureCallback {
    /// Registers a function with a pool.
    pub(crate) fn register(
        py: Python<'_>,
        pool: &PoolMemoryResource<AnyResource>,
        callback: Py<PyAny>,
    ) -> PyResult<Self> {
        let functions = Arc::new(Functions::new([callback]));
        let called = Arc::clone(&functions);
        let register = || Ok(pool.on_pressure(move |pressure| has_freed(&called, pressure)));
        let guard = Mutex::new(Some(Kept::new(make(py, register)?)));
        Ok(Self { functions, guard })
    }
}

#[pymethods]
impl PressureCallback {
    /// Removes the callback. A call that another thread has begun may go on.
    fn remove(&self) {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
        // After the lock was released: it may run Python code.
        drop(guard);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.remove();
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.functions.traverse(visit)
    }
}
