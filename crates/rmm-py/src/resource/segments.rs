//! Segments of a pool, and callbacks that register them with other libraries.

use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple, PyWeakrefReference};
use rmm_adaptors::{PoolMemoryResource, Segment as Engine, SegmentEvent, SegmentGuard};

use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::errors::note_raised;
use crate::interpreter::functions::Functions;
use crate::resource::callbacks::attached;
use crate::resource::make;

/// What a call fails with that is not made.
const ENDING: &str = "the callback, or the Python interpreter, is ending";

/// Contiguous memory that a pool has from one call of its upstream, and returns as a whole. Not in
/// RMM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[pyclass(frozen, eq, hash, module = "rmm_rs")]
pub(crate) struct Segment(Engine);

#[pymethods]
impl Segment {
    /// The address of the first byte.
    #[getter]
    fn ptr(&self) -> u64 {
        self.0.base().0
    }

    /// Bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.0.bytes()
    }

    fn __repr__(&self) -> String {
        format!("<Segment: {} bytes at {:#x}>", self.0.bytes(), self.0.base().0)
    }
}

impl Segment {
    pub(crate) fn engine(self) -> Engine {
        self.0
    }
}

/// Keeps a callback of `PoolMemoryResource.on_segment` registered: until `remove` is called, the
/// end of a `with` block, or until this object is gone. Each calls it with "removing" for every
/// segment that it has. Not in RMM.
#[derive(Debug)]
#[pyclass(frozen, weakref, module = "rmm_rs")]
pub(crate) struct SegmentCallback {
    shared: Arc<Shared>,
}

/// What the object shares with the pool.
#[derive(Debug)]
struct Shared {
    functions: Functions<1>,
    /// A weak reference to the `SegmentCallback`, whose callback removes this one. The garbage
    /// collector, which clears objects of a cycle in any order, clears the weak references to them
    /// and calls their callbacks first: until then the function was not cleared.
    owner: OnceLock<Functions<1>>,
    state: Mutex<State>,
    /// Addresses of the segments that the function has accepted.
    accepted: Mutex<BTreeSet<u64>>,
}

#[derive(Default, Debug)]
struct State {
    guard: Option<DropDetached<SegmentGuard>>,
    /// Once the guard is dropped, until the pool has dropped the callback: another reference to the
    /// function. A call of another thread may take longer than the object lives, and what the
    /// collector does not see it does not clear.
    last: Option<Functions<1>>,
}

/// What the pool has. The pool drops it after the last call.
struct OfPool(Arc<Shared>);

impl Drop for OfPool {
    fn drop(&mut self) {
        let last = self.0.lock().last.take();
        drop(last);
    }
}

impl Shared {
    /// The function, if it may be called.
    fn function<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let last = self.lock().last.as_ref().and_then(|last| Some(last.get(0)?.bind(py).clone()));
        if last.is_some() {
            return last;
        }
        let owner = self.owner.get()?.get(0)?.bind(py);
        let is_there = owner.call0().is_ok_and(|owner| !owner.is_none());
        // A reference for the time of the call, which the collector counts.
        self.functions.get(0).filter(|_| is_there).map(|function| function.bind(py).clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accepted(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_accepted(&self, segment: Engine) -> bool {
        self.accepted().contains(&segment.base().0)
    }

    /// Calls the function, on the thread that makes the pool change.
    fn call(&self, event: SegmentEvent) -> Result<(), String> {
        let (is_added, segment) = match event {
            SegmentEvent::Added(segment) => (true, segment),
            SegmentEvent::Removing(segment) if self.has_accepted(segment) => (false, segment),
            _ => return Ok(()),
        };
        let called = attached(|py| {
            if is_finalizing(py) {
                return Err(ENDING.to_owned());
            }
            let Some(function) = self.function(py) else {
                // The collector has the object. What was registered stays.
                return if is_added { Ok(false) } else { Err(ENDING.to_owned()) };
            };
            let event = if is_added { "added" } else { "removing" };
            let Err(raised) = function.call1((event, Segment(segment))) else { return Ok(true) };
            let text = raised.to_string();
            if is_added {
                note_raised(Some(raised));
            } else {
                raised.write_unraisable(py, Some(&function));
            }
            Err(text)
        });
        if called.unwrap_or_else(|| Err(ENDING.to_owned()))? {
            let base = segment.base().0;
            let mut accepted = self.accepted();
            if is_added {
                accepted.extend([base]);
            } else {
                accepted.retain(|&it| it != base);
            }
        }
        Ok(())
    }

    /// Has the pool drop the function, after it has let go of all segments.
    fn remove(&self, py: Python<'_>) {
        let guard = {
            let mut state = self.lock();
            let Some(guard) = state.guard.take() else { return };
            state.last = self.functions.get(0).map(|it| Functions::new([it.clone_ref(py)]));
            guard
        };
        if is_finalizing(py) {
            // The function is not called: what it has registered stays.
            let _leaked = ManuallyDrop::new(guard);
        }
    }
}

fn is_finalizing(py: Python<'_>) -> bool {
    let answer = py.import("sys").and_then(|sys| sys.call_method0("is_finalizing")?.is_truthy());
    answer.unwrap_or(true)
}

impl SegmentCallback {
    /// Registers a function with a pool.
    pub(crate) fn register(
        py: Python<'_>,
        pool: &PoolMemoryResource,
        callback: Py<PyAny>,
    ) -> PyResult<Py<Self>> {
        let shared = Arc::new(Shared {
            functions: Functions::new([callback]),
            owner: OnceLock::new(),
            state: Mutex::default(),
            accepted: Mutex::default(),
        });
        let own = Py::new(py, Self { shared: Arc::clone(&shared) })?;
        let of_owner = Arc::clone(&shared);
        let gone = move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            of_owner.remove(arguments.py());
        };
        let gone = PyCFunction::new_closure(py, None, None, gone)?;
        let weak = PyWeakrefReference::new_with(own.bind(py), gone)?.into_any().unbind();
        // Before the pool calls the function. Set once, here.
        let _ignored = shared.owner.set(Functions::new([weak]));
        let of_pool = OfPool(Arc::clone(&shared));
        let guard = make(py, || pool.on_segment(move |event| of_pool.0.call(event)))?;
        shared.lock().guard = Some(DropDetached::new(guard));
        Ok(own)
    }
}

#[pymethods]
impl SegmentCallback {
    /// Calls the callback with "removing" for each segment that it has, and removes it. What it
    /// raises meanwhile is passed to `sys.unraisablehook`. A call that another thread has begun may
    /// go on.
    fn remove(&self, py: Python<'_>) {
        self.shared.remove(py);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.remove(py);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.shared.functions.traverse(visit)
    }
}

/// The segments that a pool has now.
pub(crate) fn of_pool(py: Python<'_>, pool: &PoolMemoryResource) -> PyResult<Vec<Segment>> {
    let segments = make(py, || Ok(pool.segments()))?;
    Ok(segments.into_iter().map(Segment).collect())
}
