//! Resources from a line of text.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rmm_spec::ResourceSpec;

use crate::resource::{DeviceMemoryResource, make};

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
        let parsed: ResourceSpec = spec
            .parse()
            .map_err(|error: rmm_spec::SpecError| PyValueError::new_err(error.to_string()))?;
        let engine = make(py, || parsed.build())?;
        Ok(DeviceMemoryResource::over_engine(engine).add_subclass(Self { spec }))
    }

    /// The specification.
    #[getter]
    fn spec(&self) -> &str {
        &self.spec
    }
}
