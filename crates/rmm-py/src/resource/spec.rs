//! Resources from a line of text.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rmm_core::Device;
use rmm_spec::{RESOURCE_VARIABLE, ResourceSpec};

use crate::interpreter::errors::of_call;
use crate::resource::{DeviceMemoryResource, make};

fn parse(spec: &str) -> PyResult<ResourceSpec> {
    spec.parse().map_err(|error: rmm_spec::SpecError| PyValueError::new_err(error.to_string()))
}

/// A stack of resources from a specification, such as `statistics(pool(cuda, max=8GiB))`. Not in
/// RMM.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = DeviceMemoryResource,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct SpecMemoryResource {
    spec: String,
}

#[pymethods]
impl SpecMemoryResource {
    #[new]
    #[pyo3(signature = (spec))]
    fn py_new(py: Python<'_>, spec: String) -> PyResult<PyClassInitializer<Self>> {
        let parsed = parse(&spec)?;
        let engine = make(py, || parsed.build())?;
        Ok(DeviceMemoryResource::over_engine(engine).add_subclass(Self { spec }))
    }

    /// The specification.
    #[getter]
    fn spec(&self) -> &str {
        &self.spec
    }
}

/// The resource of a device that the environment variable `RMM_RESOURCE` describes; `None` if it
/// is not set, or empty.
pub(crate) fn of_variable(
    py: Python<'_>,
    device: i32,
) -> PyResult<Option<Py<DeviceMemoryResource>>> {
    let Some(text) = std::env::var_os(RESOURCE_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let name = |raised: PyErr| {
        let text = format!("{RESOURCE_VARIABLE}: {}", raised.value(py));
        let named = PyErr::from_type(raised.get_type(py), text);
        named.set_cause(py, Some(raised));
        named
    };
    let text = text.to_str().ok_or_else(|| {
        PyValueError::new_err(format!("{RESOURCE_VARIABLE}: the text is not UTF-8"))
    })?;
    let ordinal = usize::try_from(device);
    let ordinal =
        ordinal.map_err(|_| PyRuntimeError::new_err(format!("there is no device {device}")))?;
    // A pool is of the device that is current when it is made.
    let found = make(py, || Device::new(ordinal)).map_err(name)?;
    let current = found.make_current().map_err(|error| name(of_call(py, &error)));
    let _current = current?;
    let made = py.get_type::<SpecMemoryResource>().call1((text,)).map_err(name)?;
    Ok(Some(made.cast_into::<DeviceMemoryResource>()?.unbind()))
}

/// Reads a specification and makes nothing, for programs that hand it to other processes.
///
/// Raises
/// ------
/// ValueError
///     If it is none. The text names the place.
#[pyfunction]
#[pyo3(signature = (spec))]
pub(crate) fn _check_spec(spec: &str) -> PyResult<()> {
    parse(spec).map(drop)
}
