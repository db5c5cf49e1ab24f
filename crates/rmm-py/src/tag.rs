//! Tags: which part of a program allocates.

use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use rmm_adaptors::Tag;

/// A context manager: memory that the thread allocates inside counts for this tag in every
/// `TaggedResourceAdaptor`. Not in RMM.
///
/// Parameters
/// ----------
/// name : str
#[derive(Debug)]
#[pyclass(name = "tag", frozen, module = "rmm_rs")]
pub(crate) struct TagContext {
    tag: Tag,
    /// The tags to go back to.
    before: Mutex<Vec<Tag>>,
}

/// Makes the tag the thread's current one, for good.
fn set_current(tag: Tag) {
    let _stays = ManuallyDrop::new(tag.enter());
}

#[pymethods]
impl TagContext {
    #[new]
    fn py_new(name: &str) -> Self {
        Self { tag: Tag::named(name), before: Mutex::default() }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        let context = slf.get();
        let mut before = context.before.lock().unwrap_or_else(PoisonError::into_inner);
        before.push(Tag::current());
        drop(before);
        set_current(context.tag);
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).pop();
        set_current(before.unwrap_or(Tag::UNTAGGED));
    }

    fn __repr__(&self) -> String {
        format!("rmm_rs.tag({:?})", self.tag.name())
    }
}
