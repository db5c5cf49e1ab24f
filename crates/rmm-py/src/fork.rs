//! `fork`: a child has the parent's memory, but no CUDA driver that works.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Whether this process may have started the driver.
static STARTED: AtomicBool = AtomicBool::new(false);
/// Whether this process is the child of one that had.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Has every later `fork` noticed. Without effect from the second call on.
pub(crate) fn watch() {
    extern "C" fn in_child() {
        if STARTED.load(Ordering::Relaxed) {
            FORKED.store(true, Ordering::Relaxed);
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler writes to a static, which is allowed between `fork` and `exec`, and
        // does not unwind.
        let _out_of_memory = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Called before everything that may call the driver.
///
/// # Errors
/// `RuntimeError` in the child of a process that used the driver.
#[inline]
pub(crate) fn check() -> PyResult<()> {
    if FORKED.load(Ordering::Relaxed) {
        return Err(refused());
    }
    if !STARTED.load(Ordering::Relaxed) {
        STARTED.store(true, Ordering::Relaxed);
    }
    Ok(())
}

#[cold]
fn refused() -> PyErr {
    PyRuntimeError::new_err("CUDA cannot be used after fork; start processes with spawn")
}

/// Whether the driver and all locks are the parent's, so that frees have to do nothing.
#[inline]
pub(crate) fn in_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}
