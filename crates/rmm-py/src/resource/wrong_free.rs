//! Wrong frees that a pool has found, which the call raises that frees.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rmm_adaptors::TrackingFinding;
use rmm_core::wait;

use crate::interpreter::debug_log::log_detached;

/// Whether a thread has noted one: most programs have none.
static IS_ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    static FOUND: Cell<Option<String>> = const { Cell::new(None) };
}

/// Keeps a finding for the call that this thread is in, and writes it to the debug log: the
/// collector's frees raise nothing.
pub(crate) fn note(finding: &TrackingFinding<'_>) {
    let text = finding.to_string();
    wait::about_to_wait();
    log_detached("error", &text);
    IS_ANY.store(true, Ordering::Relaxed);
    // While the thread ends the cell is gone.
    let _ignored = FOUND.try_with(|found| found.set(Some(text)));
}

/// Runs a free.
///
/// # Errors
/// Those of `free`; `ValueError` with what it has found.
#[inline]
pub(crate) fn raised_by(free: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
    if IS_ANY.load(Ordering::Relaxed) {
        let _ignored = FOUND.take();
    }
    free()?;
    // What this thread has noted it sees.
    if IS_ANY.load(Ordering::Relaxed) { raised() } else { Ok(()) }
}

#[cold]
fn raised() -> PyResult<()> {
    match FOUND.take() {
        None => Ok(()),
        Some(text) => Err(PyValueError::new_err(text)),
    }
}
