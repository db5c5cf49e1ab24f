//! The adaptor that writes each call to a file.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use rmm_adaptors::{LOG_FILE_VARIABLE, LogColumn, LoggingResourceAdaptor as Logging};
use rmm_core::{AnyResource, Device};

use crate::interpreter::drop_detached::DropDetached;
use crate::resource::{Upstream, UpstreamResourceAdaptor, make};

/// Writes each call to a file of comma-separated values, as RMM does.
///
/// Parameters
/// ----------
/// upstream_mr : DeviceMemoryResource
/// log_file_name : str, optional
///     The file, into whose name the device's number goes; by default the one that the environment
///     variable `RMM_LOG_FILE` names.
/// columns : sequence of str, optional
///     Columns after RMM's: of `"Tag"`, `"Site"` (the lines of Python that allocated, the innermost
///     first) and `"Device"`. Not in RMM.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = UpstreamResourceAdaptor,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct LoggingResourceAdaptor {
    engine: DropDetached<Logging<AnyResource>>,
    path: String,
}

/// The adaptors whose logs are flushed as the interpreter ends.
static LOGS: Mutex<Vec<Py<PyWeakrefReference>>> = Mutex::new(Vec::new());

/// The name of a device's file: its number goes before the extension.
#[pyfunction]
#[pyo3(name = "_append_id", signature = (filename, id))]
pub(crate) fn append_id(filename: PathBuf, id: i64) -> String {
    let extension = filename.extension().map(|extension| extension.to_string_lossy().into_owned());
    let stem = filename.with_extension("");
    match extension {
        Some(extension) => format!("{}.dev{id}.{extension}", stem.display()),
        None => format!("{}.dev{id}", filename.display()),
    }
}

fn column(name: &str) -> PyResult<LogColumn> {
    LogColumn::named(name).ok_or_else(|| {
        let all = LogColumn::ALL.map(LogColumn::name).join(", ");
        PyValueError::new_err(format!("no column is called {name:?}; there are {all}"))
    })
}

fn path_of(py: Python<'_>, name: Option<PathBuf>) -> PyResult<String> {
    let variable = || {
        // Python's environment, in which a program may have set it.
        let environment = py.import("os")?.getattr("environ")?;
        let value = environment.call_method1("get", (LOG_FILE_VARIABLE,))?;
        value.extract::<Option<PathBuf>>()
    };
    let name = match name {
        Some(name) => Some(name),
        None => variable()?.filter(|name| !name.as_os_str().is_empty()),
    };
    let name = name.ok_or_else(|| {
        PyValueError::new_err(format!(
            "RMM log file must be specified either using log_file_name= argument or \
             {LOG_FILE_VARIABLE} environment variable"
        ))
    })?;
    let device = make(py, Device::current)?;
    let named = append_id(name, i64::try_from(device.ordinal()).unwrap_or(i64::MAX));
    // Without `..`, as RMM names it: the folder before that need not be there.
    py.import("os.path")?.call_method1("abspath", (named,))?.extract()
}

#[pymethods]
impl LoggingResourceAdaptor {
    #[new]
    #[pyo3(
        signature = (upstream_mr, log_file_name=None, *, columns=Vec::new()),
        text_signature = "(upstream_mr, log_file_name=None, *, columns=())"
    )]
    fn py_new(
        py: Python<'_>,
        upstream_mr: Upstream<'_>,
        log_file_name: Option<PathBuf>,
        columns: Vec<String>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let upstream = upstream_mr.engine()?;
        let columns = columns.iter().map(|name| column(name)).collect::<PyResult<Vec<_>>>()?;
        let path = path_of(py, log_file_name)?;
        let engine = py.detach(|| Logging::builder(upstream).file(&path).columns(columns).build());
        let engine = engine.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let base = UpstreamResourceAdaptor::over(upstream_mr, AnyResource::new(engine.clone()));
        Ok(base.add_subclass(Self { engine: DropDetached::new(engine), path }))
    }

    #[pyo3(signature = (*_args, **_kwargs))]
    fn __init__(
        slf: &Bound<'_, Self>,
        _args: &Bound<'_, pyo3::types::PyTuple>,
        _kwargs: Option<&Bound<'_, pyo3::types::PyDict>>,
    ) -> PyResult<()> {
        let py = slf.py();
        let new = PyWeakrefReference::new(slf)?.unbind();
        // The references are looked at without the lock of the list.
        let all = std::mem::take(&mut *lock());
        let (mut kept, ended): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|log| log.bind(py).upgrade().is_some());
        kept.push(new);
        lock().append(&mut kept);
        drop(ended);
        Ok(())
    }

    /// Writes what was logged so far to the file.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let engine = self.engine.get()?;
        let flushed = py.detach(|| engine.flush());
        flushed.map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// The path of the file.
    fn get_file_name(&self) -> &str {
        &self.path
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<Py<PyWeakrefReference>>> {
    LOGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Flushes all logs, as the interpreter ends.
#[pyfunction]
pub(crate) fn _flush_all_logs(py: Python<'_>) {
    let logs = std::mem::take(&mut *lock());
    for log in logs {
        let Some(log) = log.bind(py).upgrade() else { continue };
        if let Ok(adaptor) = log.cast::<LoggingResourceAdaptor>() {
            // A file that cannot be written to is no reason to fail.
            let _ignored = adaptor.get().flush(py);
        }
    }
}

/// Adds the class and its functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LoggingResourceAdaptor>()?;
    module.add_function(wrap_pyfunction!(append_id, module)?)?;
    module.add_function(wrap_pyfunction!(_flush_all_logs, module)?)
}
