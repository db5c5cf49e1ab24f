//! `rmm_rs.effort`: how far requests of a thread may go.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rmm_core::{Effort, EffortScope};

/// Limits the requests for memory of this thread, within `with`: one that no free block serves
/// raises `MemoryError` before the steps that are left out. Of several the innermost counts. Do not
/// await inside: other tasks of the thread would be limited. Not in RMM.
///
/// Parameters
/// ----------
/// host_wait : bool
///     Whether the thread may wait for the device and for other threads.
/// growth : bool
///     Whether pools may take more memory from the device.
/// deadline : float, optional
///     Seconds from the beginning of the `with`: no step begins later, and a wait ends then.
///
/// Raises
/// ------
/// ValueError
///     For more than one limit, none, or a deadline that is no time.
#[derive(Debug)]
#[pyclass(name = "effort", frozen, module = "rmm_rs")]
pub(crate) struct EffortContext {
    limit: Limit,
}

thread_local! {
    /// The scopes that the thread is in, the innermost last. They belong to the thread, and the
    /// objects, which a collection may drop on another one, do not.
    static SCOPES: RefCell<Vec<EffortScope>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    Effort(Effort),
    For(Duration),
}

#[pymethods]
impl EffortContext {
    #[new]
    #[pyo3(signature = (*, host_wait=true, growth=true, deadline=None))]
    fn py_new(host_wait: bool, growth: bool, deadline: Option<f64>) -> PyResult<Self> {
        let limit = match (host_wait, growth, deadline) {
            (false, true, None) => Limit::Effort(Effort::NoHostWait),
            (true, false, None) => Limit::Effort(Effort::NoGrowth),
            (true, true, Some(seconds)) => {
                let time = Duration::try_from_secs_f64(seconds);
                let wrong = |_| PyValueError::new_err(format!("a deadline of {seconds} s"));
                Limit::For(time.map_err(wrong)?)
            }
            _ => {
                let why = "give one of host_wait=False, growth=False and deadline";
                return Err(PyValueError::new_err(why));
            }
        };
        Ok(Self { limit })
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        let effort = match slf.get().limit {
            Limit::Effort(effort) => effort,
            Limit::For(time) => {
                Instant::now().checked_add(time).map_or(Effort::Full, Effort::Until)
            }
        };
        SCOPES.with_borrow_mut(|scopes| scopes.push(rmm_core::effort(effort)));
        slf
    }

    #[pyo3(signature = (*_exception))]
    #[expect(clippy::unused_self, reason = "Python passes it")]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        let left = SCOPES.with_borrow_mut(Vec::pop);
        drop(left);
    }
}
