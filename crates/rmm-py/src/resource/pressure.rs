//! Callbacks of a pool that is about to refuse a request.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyWeakrefReference};
use rmm_adaptors::{PoolMemoryResource, Pressure as Engine, PressureCallback as Guard};

use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::errors::note_raised;
use crate::interpreter::functions::Functions;
use crate::resource::callbacks::attached;
use crate::resource::make;

/// A request that is about to fail for lack of memory. Not in RMM.
///
/// Attributes
/// ----------
/// requested : int
///     The bytes that were requested, rounded up as the pool does.
/// missing : int
///     The fewest bytes that have to be freed, to the pool or to the device; more if memory is
///     fragmented.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "rmm_rs")]
pub(crate) struct Pressure {
    requested: u64,
    missing: u64,
}

#[pymethods]
impl Pressure {
    fn __repr__(&self) -> String {
        format!("<Pressure: {} bytes requested, {} missing>", self.requested, self.missing)
    }
}

/// Keeps a callback of `PoolMemoryResource.on_pressure` registered: until `remove` is called, the
/// end of a `with` block, or until this object is gone. Not in RMM.
#[derive(Debug)]
#[pyclass(frozen, weakref, module = "rmm_rs")]
pub(crate) struct PressureCallback {
    functions: Arc<Functions<1>>,
    guard: Mutex<Option<DropDetached<Guard>>>,
}

/// What the pool calls.
struct Called {
    functions: Arc<Functions<1>>,
    /// A weak reference to the `PressureCallback`. The garbage collector, which clears objects of a
    /// cycle in any order, clears all weak references to them first: while this one is there the
    /// function was not cleared.
    owner: OnceLock<Functions<1>>,
}

impl Called {
    /// The function, if the `PressureCallback` is there.
    fn function<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let owner = self.owner.get()?.get(0)?.bind(py);
        let is_there = owner.call0().is_ok_and(|owner| !owner.is_none());
        // A reference for the time of the call, which the collector counts.
        self.functions.get(0).filter(|_| is_there).map(|function| function.bind(py).clone())
    }
}

fn has_freed(called: &Called, pressure: &Engine<'_>) -> bool {
    let freed = attached(|py| {
        let Some(function) = called.function(py) else { return false };
        // What an upstream callback raised was answered by asking this one.
        note_raised(None);
        let pressure = Pressure { requested: pressure.requested, missing: pressure.missing };
        let answer = function.call1((pressure,));
        answer.and_then(|answer| answer.is_truthy()).unwrap_or_else(|raised| {
            note_raised(Some(raised));
            false
        })
    });
    freed.unwrap_or(false)
}

impl PressureCallback {
    /// Registers a function with a pool.
    pub(crate) fn register(
        py: Python<'_>,
        pool: &PoolMemoryResource,
        callback: Py<PyAny>,
    ) -> PyResult<Py<Self>> {
        let functions = Arc::new(Functions::new([callback]));
        let called = Called { functions: Arc::clone(&functions), owner: OnceLock::new() };
        let called = Arc::new(called);
        let of_pool = Arc::clone(&called);
        let register = || Ok(pool.on_pressure(move |pressure| has_freed(&of_pool, pressure)));
        let guard = Mutex::new(Some(DropDetached::new(make(py, register)?)));
        let own = Py::new(py, Self { functions, guard })?;
        let weak = PyWeakrefReference::new(own.bind(py))?.into_any().unbind();
        // Set once, here.
        let _ignored = called.owner.set(Functions::new([weak]));
        Ok(own)
    }
}

#[pymethods]
impl PressureCallback {
    /// Removes the callback. A call that another thread has begun may go on.
    fn remove(&self) {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
        // After the lock was released: it may run Python code.
        drop(guard);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.remove();
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.functions.traverse(visit)
    }
}
