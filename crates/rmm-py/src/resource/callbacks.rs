//! Resources and adaptors that call Python functions.
//!
//! The functions are attached to a resource of the engine, which may outlive the Python object: a
//! pool that was made over it, or C, may hold it. They are in an `Arc` that both share.
//!
//! The garbage collector clears objects of a cycle in any order, and a function that was cleared
//! must not be called. So it sees the functions as the Python object's only where nothing but that
//! object can have them called: the object has the only handle of the engine's resource, and no
//! memory of it is allocated. A cycle is found once that is so.
//!
//! An exception may propagate while a free calls a function. It is set aside for that long.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rmm_adaptors::{
    CallbackMemoryResource as Engine, FailedAllocation,
    FailureCallbackResourceAdaptor as FailureEngine,
};
use rmm_core::sys::CuResult;
use rmm_core::{AnyResource, DevicePtr, Error, StreamRef};

use crate::interpreter;
use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::errors::{note_raised, wrong_type};
use crate::interpreter::functions::Functions;
use crate::resource::{DeviceMemoryResource, Upstream, UpstreamResourceAdaptor};
use crate::stream::Stream;

/// What a call fails with while the interpreter ends.
const ENDING: &str = "the Python interpreter is ending";

/// Calls `act` with the interpreter, if it still runs, for a call of the program's functions. The
/// exception that propagates on this thread, if one does, is set aside meanwhile: a call would
/// replace it, or fail by it.
pub(crate) fn attached<R: interpreter::Plain>(act: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    interpreter::attached(|py| {
        let _saved = SavedException::new(py);
        act(py)
    })
}

/// Refuses a callback that cannot be called, before the pool calls it.
pub(crate) fn require_callable(callback: &Bound<'_, PyAny>) -> PyResult<()> {
    if callback.is_callable() {
        return Ok(());
    }
    Err(wrong_type(format!("the callback has to be callable, and is {}", callback.get_type())))
}

/// The exception that a thread propagates, set aside until this is dropped.
struct SavedException<'py> {
    exception: [*mut ffi::PyObject; 3],
    /// The thread is attached.
    _attached: Python<'py>,
}

impl<'py> SavedException<'py> {
    fn new(attached: Python<'py>) -> Self {
        let [mut kind, mut value, mut traceback] = [ptr::null_mut(); 3];
        // SAFETY: the thread is attached, and the places may be written to.
        unsafe { ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut traceback) };
        Self { exception: [kind, value, traceback], _attached: attached }
    }
}

impl Drop for SavedException<'_> {
    fn drop(&mut self) {
        let [kind, value, traceback] = self.exception;
        // SAFETY: the thread is attached, by the field; the references are those that
        // `PyErr_Fetch` gave, and go back. Without an exception they are null.
        unsafe { ffi::PyErr_Restore(kind, value, traceback) };
    }
}

/// Whether one object has all handles of its resource: that of its base, and this one.
fn is_alone(engine: &AnyResource) -> bool {
    engine.handle_count() <= 2
}

/// Memory from Python functions: to find faults of a program, since each call is slow.
///
/// Parameters
/// ----------
/// allocate_func : callable
///     Called with the bytes and the `Stream`; returns the address, or 0 if it is out of memory. It
///     may be called more than once for one request: if it raises `MemoryError` because a resource
///     of this package did, it is called again after other pools have returned memory.
/// deallocate_func : callable
///     Called with the address, the bytes and the `Stream`.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = DeviceMemoryResource,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct CallbackMemoryResource {
    /// Set by `__init__`, to which a class that is derived in Python may pass methods of its own.
    callbacks: OnceLock<Callbacks>,
}

/// What the object shares with the engine.
#[derive(Debug)]
struct Callbacks {
    functions: Arc<Functions<2>>,
    /// Blocks that are allocated.
    live: Arc<AtomicUsize>,
    /// A second handle, beside that of the base.
    engine: DropDetached<AnyResource>,
}

fn allocate(
    py: Python<'_>,
    functions: &Functions<2>,
    stream: StreamRef<'_>,
    bytes: usize,
) -> PyResult<DevicePtr> {
    let Some(function) = functions.get(0) else { return Ok(DevicePtr::NULL) };
    let stream = Stream::of_engine(py, stream)?;
    let address = function.bind(py).call1((bytes, stream))?;
    Ok(DevicePtr::new(address.extract()?))
}

fn deallocate(
    py: Python<'_>,
    functions: &Functions<2>,
    stream: StreamRef<'_>,
    pointer: DevicePtr,
    bytes: usize,
) {
    let Some(function) = functions.get(1) else { return };
    let stream = Stream::of_engine(py, stream);
    let freed = stream.and_then(|stream| function.bind(py).call1((pointer.addr(), bytes, stream)));
    if let Err(raised) = freed {
        raised.write_unraisable(py, Some(function.bind(py)));
    }
}

/// The engine's error for an exception, which is noted for the call that fails by it.
fn failed(py: Python<'_>, raised: PyErr) -> Error {
    let text = raised.to_string();
    let is_memory = raised.is_instance_of::<PyMemoryError>(py);
    note_raised(Some(raised));
    if is_memory {
        Error::out_of_memory("callback").with_message(text)
    } else {
        Error::driver("callback", CuResult::UNKNOWN).with_message(text)
    }
}

#[pymethods]
impl CallbackMemoryResource {
    #[new]
    #[pyo3(
        signature = (*_args, **_kwargs),
        text_signature = "(allocate_func, deallocate_func)"
    )]
    fn py_new(
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyClassInitializer<Self> {
        let base = PyClassInitializer::from(DeviceMemoryResource::bare());
        base.add_subclass(Self { callbacks: OnceLock::new() })
    }

    #[pyo3(signature = (allocate_func, deallocate_func))]
    fn __init__(
        slf: &Bound<'_, Self>,
        allocate_func: Py<PyAny>,
        deallocate_func: Py<PyAny>,
    ) -> PyResult<()> {
        let functions = Arc::new(Functions::new([allocate_func, deallocate_func]));
        let (for_allocate, for_free) = (Arc::clone(&functions), Arc::clone(&functions));
        let live = Arc::new(AtomicUsize::new(0));
        let (counts, discounts) = (Arc::clone(&live), Arc::clone(&live));
        let on_allocate = move |stream: StreamRef<'_>, layout: std::alloc::Layout| {
            let called = attached(|py| {
                // Before the call: the collector may run in it.
                let _ignored = counts.fetch_add(1, Ordering::Relaxed);
                let allocated = allocate(py, &for_allocate, stream, layout.size());
                if !allocated.as_ref().is_ok_and(|pointer| !pointer.is_null()) {
                    let _ignored = counts.fetch_sub(1, Ordering::Relaxed);
                }
                allocated.map_err(|raised| failed(py, raised))
            });
            called.unwrap_or_else(|| Err(Error::unsupported("callback", ENDING)))
        };
        let on_free = move |stream: StreamRef<'_>, pointer, layout: std::alloc::Layout| {
            // Where the interpreter ends, the memory stays allocated.
            let _ignored = attached(|py| {
                deallocate(py, &for_free, stream, pointer, layout.size());
                let _ignored = discounts.fetch_sub(1, Ordering::Relaxed);
            });
        };
        // SAFETY: the contract of the class, as of RMM's: the functions return memory of the device
        // that nothing else uses, of the size that was asked for, and free it.
        let engine: Engine = unsafe { Engine::new(on_allocate, on_free) };
        let engine = AnyResource::new(engine);
        let callbacks = Callbacks { functions, live, engine: DropDetached::new(engine.clone()) };
        let is_first = slf.get().callbacks.set(callbacks).is_ok();
        if is_first && slf.as_super().get().begin(engine) {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("the resource has its functions already"))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(callbacks) = self.callbacks.get() else { return Ok(()) };
        let is_unused = callbacks.live.load(Ordering::Relaxed) == 0;
        if is_unused && is_alone(callbacks.engine.peek()) {
            callbacks.functions.traverse(visit)?;
        }
        Ok(())
    }
}

/// Calls a function when memory runs out, which may free some and have the request repeated.
///
/// Parameters
/// ----------
/// upstream_mr : DeviceMemoryResource
/// callback : callable
///     Called with the bytes of the request; returns whether to try again. It is called anew each
///     time that the request fails, without a limit.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = UpstreamResourceAdaptor,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct FailureCallbackResourceAdaptor {
    functions: Arc<Functions<1>>,
    /// A second handle, beside that of the base.
    engine: DropDetached<AnyResource>,
}

#[pymethods]
impl FailureCallbackResourceAdaptor {
    #[new]
    #[pyo3(signature = (upstream_mr, callback))]
    fn py_new(
        upstream_mr: Upstream<'_>,
        callback: Py<PyAny>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let functions = Arc::new(Functions::new([callback]));
        let called = Arc::clone(&functions);
        let on_failure = move |failure: &FailedAllocation<'_>| {
            let bytes = failure.layout.size();
            let retries = attached(|py| {
                let Some(function) = called.get(0) else { return false };
                // What an upstream callback raised was answered by asking this one.
                note_raised(None);
                let answer = function.bind(py).call1((bytes,));
                answer.and_then(|answer| answer.is_truthy()).unwrap_or_else(|raised| {
                    note_raised(Some(raised));
                    false
                })
            });
            retries.unwrap_or(false)
        };
        let builder = FailureEngine::builder(upstream_mr.engine()?).max_retries(u32::MAX);
        let engine = AnyResource::new(builder.build(on_failure));
        let own = Self { functions, engine: DropDetached::new(engine.clone()) };
        Ok(UpstreamResourceAdaptor::over(upstream_mr, engine).add_subclass(own))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Frees do not call it.
        if is_alone(self.engine.peek()) { self.functions.traverse(visit) } else { Ok(()) }
    }
}
