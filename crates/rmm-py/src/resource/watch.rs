//! A process that lets itself be watched by `rmm watch`.

use pyo3::prelude::*;
use rmm_adaptors::monitor;

use crate::resource::{DeviceMemoryResource, make};

/// Opens the socket of this process, which stays open until `_end_watching`.
#[cfg(target_os = "linux")]
#[pyfunction]
pub(crate) fn _watch(py: Python<'_>) -> PyResult<()> {
    py.detach(|| {
        let watched = rmm_report::watch::serve()?;
        // One of the parent of a `fork` is replaced, and closes nothing.
        let replaced = lock().replace(watched);
        drop(replaced);
        Ok(())
    })
}

/// Refuses.
#[cfg(not(target_os = "linux"))]
#[pyfunction]
pub(crate) fn _watch() -> PyResult<()> {
    let text = "programs can be watched on Linux only";
    Err(pyo3::exceptions::PyOSError::new_err(text))
}

/// Closes the socket, if it is open.
#[pyfunction]
pub(crate) fn _end_watching(py: Python<'_>) {
    #[cfg(target_os = "linux")]
    py.detach(|| {
        let ended = lock().take();
        drop(ended);
    });
    #[cfg(not(target_os = "linux"))]
    let _unused = py;
}

/// Has the pools and tags of a resource read under this name, as long as they exist.
#[pyfunction]
#[pyo3(signature = (name, mr))]
pub(crate) fn _register(
    py: Python<'_>,
    name: &str,
    mr: &Bound<'_, DeviceMemoryResource>,
) -> PyResult<()> {
    let engine = mr.get().engine()?;
    make(py, || {
        monitor::register(name, engine);
        Ok(())
    })
}

#[cfg(target_os = "linux")]
fn lock() -> std::sync::MutexGuard<'static, Option<rmm_report::watch::Watched>> {
    use std::sync::{Mutex, PoisonError};

    /// Held only to read or write it.
    static WATCHED: Mutex<Option<rmm_report::watch::Watched>> = Mutex::new(None);
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_watch, module)?)?;
    module.add_function(wrap_pyfunction!(_end_watching, module)?)?;
    module.add_function(wrap_pyfunction!(_register, module)?)
}
