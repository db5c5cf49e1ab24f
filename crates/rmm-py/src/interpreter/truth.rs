//! Flags that any object may be given for, as RMM takes them.

use pyo3::prelude::*;

/// Any object as true or false.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth(pub(crate) bool);

impl<'py> FromPyObject<'_, 'py> for Truth {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        object.is_truthy().map(Self)
    }
}
