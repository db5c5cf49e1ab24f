//! The announcement of captures.

use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::interpreter::fork;

/// Announces that streams are captured, within `with`: a pool then asks the driver whether a stream
/// is under capture before it reuses what was freed there, and makes no call that would invalidate
/// a capture. Not in RMM.
///
/// Begin it before the capture, and end it after the capture. Scopes may overlap, also on several
/// threads.
#[derive(Debug)]
#[pyclass(name = "capture_scope", frozen, module = "rmm_rs")]
pub(crate) struct CaptureScope {
    entered: Mutex<Vec<rmm_core::CaptureScope>>,
}

impl CaptureScope {
    fn entered(&self) -> std::sync::MutexGuard<'_, Vec<rmm_core::CaptureScope>> {
        rmm_core::fork::lock(&self.entered)
    }
}

#[pymethods]
impl CaptureScope {
    #[new]
    fn py_new() -> Self {
        Self { entered: Mutex::default() }
    }

    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        fork::check()?;
        // A wait of another thread may be for a callback in Python.
        let scope = py.detach(rmm_core::CaptureScope::announce);
        slf.get().entered().push(scope);
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        let left = self.entered().pop();
        drop(left);
    }
}
