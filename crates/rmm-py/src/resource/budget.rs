//! Budgets: the memory that a pool may hold, in relation to what there is.

use pyo3::prelude::*;
use rmm_resources::Budget as Engine;

use crate::interpreter::sizes::Bytes;
use crate::resource::make;

/// A number of bytes in relation to the memory that there is when it is asked for: the
/// `maximum_pool_size` of a pool that fits each machine. Not in RMM.
#[derive(Clone, Copy, Debug)]
#[pyclass(frozen, module = "rmm_rs.mr")]
pub(crate) struct Budget(Engine);

#[pymethods]
impl Budget {
    /// A fraction, from 0 to 1, of the current device's free memory.
    #[staticmethod]
    fn free_fraction(fraction: f64) -> Self {
        Self(Engine::free_fraction(fraction))
    }

    /// The current device's free memory but for `nbytes` bytes, which stay for others.
    #[staticmethod]
    fn free_except(nbytes: Bytes) -> Self {
        Self(Engine::free_except(nbytes.0))
    }

    /// A fraction, from 0 to 1, of the host's free memory, of which the limits of control groups
    /// are part: for pools of pinned memory.
    #[staticmethod]
    fn host_fraction(fraction: f64) -> Self {
        Self(Engine::host_fraction(fraction))
    }

    /// The bytes now, a multiple of 256.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     If a fraction is not between 0 and 1.
    pub(crate) fn resolve(&self, py: Python<'_>) -> PyResult<u64> {
        let budget = self.0;
        make(py, || budget.resolve())
    }
}

/// An argument that is a number of bytes or a budget.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MaximumSize {
    Bytes(u64),
    Budget(Budget),
}

impl<'py> FromPyObject<'_, 'py> for MaximumSize {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(budget) = object.cast::<Budget>() {
            return Ok(Self::Budget(*budget.get()));
        }
        Ok(Self::Bytes(object.extract::<Bytes>()?.0))
    }
}
