//! The adaptor that counts bytes and allocations.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use rmm_adaptors::{AllocationCounters, StatisticsResourceAdaptor as Statistics};

use crate::resource::Upstream;
use crate::resource::adaptor::adaptor;

adaptor! {
    /// Counts bytes and allocations: those now, the most at once, and all so far.
    ///
    /// Parameters
    /// ----------
    /// upstream_mr : DeviceMemoryResource
    StatisticsResourceAdaptor(Statistics)
}

/// The dataclass `rmm_rs.statistics.Statistics` with these figures.
fn figures(py: Python<'_>, counters: AllocationCounters) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "rmm_rs.statistics", "Statistics")?;
    let (bytes, blocks) = (counters.bytes, counters.allocations);
    class.call1((bytes.value, blocks.value, bytes.peak, blocks.peak, bytes.total, blocks.total))
}

#[pymethods]
impl StatisticsResourceAdaptor {
    #[new]
    #[pyo3(signature = (upstream_mr))]
    fn py_new(upstream_mr: Upstream<'_>) -> PyResult<PyClassInitializer<Self>> {
        let engine = Statistics::new(upstream_mr.engine()?);
        Ok(Self::over(upstream_mr, engine))
    }

    /// The counters of the top level.
    #[getter]
    fn allocation_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.engine.get()?;
        figures(py, py.detach(|| engine.counters()))
    }

    /// Begins a level with counters of 0, and returns those before it.
    fn push_counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.engine.get()?;
        figures(py, py.detach(|| engine.push_counters()))
    }

    /// Ends a level, which is added to the one below, and returns its counters.
    ///
    /// Raises
    /// ------
    /// IndexError
    ///     If it is the first level.
    fn pop_counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.engine.get()?;
        let popped = py.detach(|| engine.pop_counters());
        let popped =
            popped.map_err(|_| PyIndexError::new_err("cannot pop the last counter pair"))?;
        figures(py, popped)
    }
}
