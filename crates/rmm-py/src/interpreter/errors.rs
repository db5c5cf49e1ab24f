//! Errors of the engine as Python exceptions.
//!
//! | engine | Python |
//! |---|---|
//! | there is no usable driver | `RuntimeError`, of every call that needs one |
//! | any other failed allocation | `MemoryError` with `remedies`, whose text begins as RMM's |
//! | invalid argument | `ValueError` |
//! | out of range | `IndexError` |
//! | everything else | `RuntimeError` |
//! | an exception that a callback raised | a `MemoryError` itself; others as the cause of a `RuntimeError` |

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{
    PyIndexError, PyMemoryError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use rmm_core::{Error, ErrorKind};

use crate::interpreter::debug_log::log_refusal;
use crate::interpreter::fork;
use crate::interpreter::remedy::with_remedies;

/// The resources whose lack of memory the debug log has.
const SUBALLOCATORS: [&str; 3] = ["pool", "arena", "fixed-size"];

/// Whether a callback of any thread has raised one.
static IS_ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// What the last callback on this thread raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Notes the exception of a callback, for the call that it makes fail.
pub(crate) fn note_raised(raised: Option<PyErr>) {
    if raised.is_some() {
        IS_ANY.store(true, Ordering::Relaxed);
    }
    // The former one is dropped after the cell is free again: that may run Python code.
    let _ignored = RAISED.try_with(|cell| cell.replace(raised)).ok().flatten();
}

fn take_raised() -> Option<PyErr> {
    RAISED.try_with(RefCell::take).ok().flatten()
}

/// Forgets what callbacks of earlier calls raised, if they failed without consequence.
#[inline]
pub(crate) fn forget_raised() {
    // What this thread has noted it sees.
    if IS_ANY.load(Ordering::Relaxed) {
        forget_own();
    }
}

#[cold]
fn forget_own() {
    let is_clean = RAISED.try_with(|cell| cell.try_borrow().is_ok_and(|cell| cell.is_none()));
    if !is_clean.unwrap_or(true) {
        note_raised(None);
    }
}

fn of_raised(py: Python<'_>, raised: PyErr) -> PyErr {
    if raised.is_instance_of::<PyMemoryError>(py) {
        return raised;
    }
    let text = raised.value(py).str().map_or_else(|_| String::new(), |text| text.to_string());
    let error = PyRuntimeError::new_err(text);
    error.set_cause(py, Some(raised));
    error
}

/// The exception of a failed allocation, or for the lack of a driver.
#[cold]
pub(crate) fn of_allocation(py: Python<'_>, error: &Error) -> PyErr {
    if let Some(raised) = take_raised() {
        return of_raised(py, raised);
    }
    if error.is_driver_unavailable() {
        return PyRuntimeError::new_err(error.to_string());
    }
    let raised = if error.is_out_of_memory() {
        if SUBALLOCATORS.contains(&error.origin()) {
            // The exception says it, too.
            let _ignored = log_refusal(py, error);
        }
        out_of_memory(error)
    } else {
        PyMemoryError::new_err(format!("std::bad_alloc: {error}"))
    };
    with_remedies(py, raised, error)
}

/// There is too little memory.
#[cold]
pub(crate) fn out_of_memory(why: impl std::fmt::Display) -> PyErr {
    PyMemoryError::new_err(format!("std::bad_alloc: out_of_memory: {why}"))
}

/// The exception of any other failed call.
#[cold]
pub(crate) fn of_call(py: Python<'_>, error: &Error) -> PyErr {
    if let Some(raised) = take_raised() {
        return of_raised(py, raised);
    }
    match error.kind() {
        ErrorKind::OutOfMemory => with_remedies(py, out_of_memory(error), error),
        ErrorKind::InvalidArgument => PyValueError::new_err(error.to_string()),
        ErrorKind::OutOfRange => PyIndexError::new_err(error.to_string()),
        _ => PyRuntimeError::new_err(error.to_string()),
    }
}

/// A wrong type.
#[cold]
pub(crate) fn wrong_type(text: impl Into<String>) -> PyErr {
    PyTypeError::new_err(text.into())
}

/// The exception for another version of the stream protocol.
pub(crate) fn unknown_version(version: &Bound<'_, PyAny>) -> PyErr {
    PyNotImplementedError::new_err(format!(
        "rmm_rs does not support the CUDA Stream Protocol version: '{version}'"
    ))
}

/// Makes an object of the engine without the interpreter's lock.
pub(crate) fn make<T: Send>(
    py: Python<'_>,
    build: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    fork::check()?;
    forget_raised();
    py.detach(build).map_err(|error| of_call(py, &error))
}
