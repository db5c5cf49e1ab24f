//! `fork`: a child has the parent's memory, but no CUDA driver that works.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rmm_core::{Error, fork};

/// Called before everything that may call the driver, or take a lock.
///
/// # Errors
/// `RuntimeError` in the child of a process that used the driver.
#[inline]
pub(crate) fn check() -> PyResult<()> {
    fork::check().map_err(|error| refused(&error))
}

#[cold]
fn refused(error: &Error) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// Whether the driver and all locks are the parent's, so that frees have to do nothing.
#[inline]
pub(crate) fn in_child() -> bool {
    fork::is_child()
}
