//! Memory that is set aside in a pool.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rmm_adaptors::Reservation as Engine;
use rmm_core::AnyResource;

use crate::interpreter::drop_detached::DropDetached;
use crate::resource::{Upstream, UpstreamResourceAdaptor, make};

/// Memory that is set aside in a pool, by `PoolMemoryResource.reserve`: a resource whose
/// allocations cannot fail as long as they fit into what remains. A context manager: at its end
/// what remains goes back to the pool, and what was allocated stays. Not in RMM.
#[derive(Debug)]
#[pyclass(frozen, extends = UpstreamResourceAdaptor, module = "rmm_rs.mr")]
pub(crate) struct Reservation {
    engine: DropDetached<Engine>,
}

impl Reservation {
    /// The class over a reservation of the pool.
    pub(crate) fn over(py: Python<'_>, pool: Upstream<'_>, engine: Engine) -> PyResult<Py<Self>> {
        let base = UpstreamResourceAdaptor::over(pool, AnyResource::new(engine.clone()));
        Py::new(py, base.add_subclass(Self { engine: DropDetached::new(engine) }))
    }
}

#[pymethods]
impl Reservation {
    /// The bytes that can still be allocated from it.
    #[getter]
    fn remaining(&self, py: Python<'_>) -> PyResult<u64> {
        let engine = self.engine.get()?;
        Ok(py.detach(|| engine.remaining()))
    }

    /// Returns what remains to the pool now, and returns how many bytes that were.
    fn release(&self, py: Python<'_>) -> PyResult<u64> {
        let engine = self.engine.get()?;
        make(py, || Ok(engine.release()))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.release(py).map(drop)
    }
}
