//! Pages about resources and recorded logs.

use std::path::PathBuf;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use rmm_core::{Device, Error};
use rmm_report::page;
use rmm_report::replay::{self, ReplayOptions};
use rmm_report::resource::ReplayResource;
use rmm_report::results::Report;
use rmm_report::snapshot::Snapshot;
use rmm_report::trace::{self, Trace};

use crate::resource::{DeviceMemoryResource, make};

/// The name that the software device of this repository has.
const SOFTWARE_DEVICE: &str = "Software device";

/// The page of a resource that is in use.
#[pyfunction]
#[pyo3(signature = (mr))]
pub(crate) fn _page_of_resource(mr: &Bound<'_, DeviceMemoryResource>) -> PyResult<String> {
    let title = mr.get_type().name()?.to_string();
    let resource = mr.get().engine()?;
    make(mr.py(), || Ok(page::render_live(&Snapshot::take(title, resource)?)))
}

/// The page of a log that is replayed against resources on the current device; without resources,
/// of what it says by itself.
#[pyfunction]
#[pyo3(signature = (path, resources, repeat))]
pub(crate) fn _page_of_log(
    py: Python<'_>,
    path: PathBuf,
    resources: Vec<String>,
    repeat: u32,
) -> PyResult<String> {
    if repeat == 0 {
        return Err(PyValueError::new_err("a log is replayed at least once"));
    }
    let resources: Result<Vec<ReplayResource>, _> =
        resources.iter().map(|resource| resource.parse()).collect();
    let resources =
        resources.map_err(|error: rmm_spec::SpecError| PyValueError::new_err(error.to_string()))?;
    let read = py.detach(|| trace::read(&path));
    let trace = read.map_err(|error| match error.reason {
        trace::Reason::Open(_) => PyOSError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    })?;
    if resources.is_empty() {
        return Ok(py.detach(|| page::render_logs(&[trace])));
    }
    make(py, || replayed(&trace, &resources, ReplayOptions { repeat, ..ReplayOptions::default() }))
}

fn replayed(
    trace: &Trace,
    resources: &[ReplayResource],
    options: ReplayOptions,
) -> Result<String, Error> {
    let device = Device::current()?;
    let _current = device.make_current()?;
    let mut result = replay::trace_result(trace);
    for resource in resources {
        result.resources.push(replay::replay(&device, trace, resource, options, &|_| ())?);
    }
    let name = device.name()?;
    Ok(page::render(&Report {
        rmm_version: env!("CARGO_PKG_VERSION").to_owned(),
        software_device: name.starts_with(SOFTWARE_DEVICE),
        device: name,
        traces: vec![result],
    }))
}

/// Adds the functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_page_of_resource, module)?)?;
    module.add_function(wrap_pyfunction!(_page_of_log, module)?)
}
