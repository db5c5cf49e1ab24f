//! The root of all resource classes.

pub(crate) mod adaptor;
pub(crate) mod adaptors;
pub(crate) mod base;
pub(crate) mod bins;
pub(crate) mod budget;
pub(crate) mod callbacks;
pub(crate) mod capsule;
pub(crate) mod counting;
pub(crate) mod effort;
pub(crate) mod logging;
pub(crate) mod pool;
pub(crate) mod pressure;
pub(crate) mod recorder;
pub(crate) mod registry;
pub(crate) mod report;
pub(crate) mod reservation;
pub(crate) mod segments;
pub(crate) mod shown;
pub(crate) mod spec;
pub(crate) mod suballocators;
pub(crate) mod tag;
pub(crate) mod watch;
pub(crate) mod wrong_free;

use std::sync::OnceLock;

use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use rmm_core::{
    AnyResource, Description, Device, DevicePtr, Introspect as _, MemoryCaps, MemoryKind,
    Resource as _,
};

use crate::interpreter::collector::distinct;
use crate::interpreter::drop_detached::DropDetached;
pub(crate) use crate::interpreter::errors::make;
use crate::interpreter::errors::{self, of_allocation, of_call, wrong_type};
use crate::interpreter::kept_until_wait;
use crate::interpreter::{fork, sizes};
use crate::stream::StreamArg;
use crate::stream::place::At;

/// The base of all memory resources. An instance of itself has no memory.
#[derive(Debug)]
#[pyclass(subclass, frozen, weakref, module = "rmm_rs.pylibrmm.memory_resource._memory_resource")]
pub(crate) struct DeviceMemoryResource {
    /// Empty in a bare instance, and until `__init__` where that makes the resource.
    engine: OnceLock<DropDetached<AnyResource>>,
}

impl DeviceMemoryResource {
    /// What every class without an upstream begins with.
    pub(crate) fn over_engine(engine: AnyResource) -> PyClassInitializer<Self> {
        PyClassInitializer::from(Self { engine: OnceLock::from(DropDetached::new(engine)) })
    }

    /// An instance without memory.
    pub(crate) fn bare() -> Self {
        Self { engine: OnceLock::new() }
    }

    /// Gives a bare instance its memory. Returns whether it had none.
    pub(crate) fn begin(&self, engine: AnyResource) -> bool {
        self.engine.set(DropDetached::new(engine)).is_ok()
    }

    /// The engine's resource.
    ///
    /// # Errors
    /// `RuntimeError` if this is a bare instance of a base class, and in the child of a fork.
    #[inline]
    pub(crate) fn engine(&self) -> PyResult<&AnyResource> {
        self.engine.get().ok_or_else(bare)?.get()
    }

    /// What the resource and those below it say of themselves, without the interpreter's lock.
    pub(crate) fn description(&self, py: Python<'_>) -> Option<Description> {
        let resource = self.engine.get()?.get().ok()?;
        Some(py.detach(|| resource.describe()))
    }

    pub(crate) fn has_engine(&self) -> bool {
        self.engine.get().is_some()
    }
}

#[cold]
fn bare() -> PyErr {
    PyRuntimeError::new_err("an instance of a base class of resources has no memory")
}

/// Allocates memory, with the interpreter's lock up to the first wait. Returns its address, and
/// whether no call of the driver was made.
#[inline]
pub(crate) fn allocate(
    py: Python<'_>,
    resource: &AnyResource,
    stream: At<'_>,
    bytes: usize,
) -> PyResult<(u64, bool)> {
    if bytes == 0 {
        return Ok((0, false));
    }
    fork::check()?;
    tag::follow_context(py)?;
    let layout = sizes::layout(bytes)?;
    errors::forget_raised();
    let call = || stream.with(|stream| resource.allocate(stream, layout));
    // SAFETY: it is the engine's code, which reaches Python objects through `attached`.
    let (allocated, was_cached) = unsafe { kept_until_wait(py, call) };
    match allocated.and_then(|allocated| allocated) {
        Ok(pointer) => Ok((pointer.addr(), was_cached)),
        Err(error) => Err(of_allocation(py, &error)),
    }
}

#[pymethods]
impl DeviceMemoryResource {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn py_new(
        _args: &Bound<'_, pyo3::types::PyTuple>,
        _kwargs: Option<&Bound<'_, pyo3::types::PyDict>>,
    ) -> Self {
        Self::bare()
    }

    // Classes that are derived in Python pass on what they were called with, as to RMM's.
    #[expect(clippy::unused_self, reason = "the signature is PyO3's")]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn __init__(
        &self,
        _args: &Bound<'_, pyo3::types::PyTuple>,
        _kwargs: Option<&Bound<'_, pyo3::types::PyDict>>,
    ) {
    }

    /// Allocates memory that may be used in the order of the stream, and returns its address.
    ///
    /// Raises
    /// ------
    /// MemoryError
    ///     If the memory cannot be allocated, for whatever reason.
    #[pyo3(signature = (nbytes, stream=StreamArg::Default))]
    fn allocate(&self, py: Python<'_>, nbytes: usize, stream: StreamArg<'_>) -> PyResult<u64> {
        let (address, _) = allocate(py, self.engine()?, stream.get(py)?.into(), nbytes)?;
        Ok(address)
    }

    /// Frees memory in the order of the stream. The size is that of the allocation.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     If a pool with `check_frees` finds that the address or the size is wrong.
    #[pyo3(signature = (ptr, nbytes, stream=StreamArg::Default))]
    fn deallocate(
        &self,
        py: Python<'_>,
        ptr: u64,
        nbytes: usize,
        stream: StreamArg<'_>,
    ) -> PyResult<()> {
        if fork::in_child() {
            return Ok(());
        }
        let (resource, stream) = (self.engine()?, stream.get(py)?);
        if ptr == 0 || nbytes == 0 {
            return Ok(());
        }
        let (pointer, layout) = (DevicePtr::new(ptr), sizes::layout(nbytes)?);
        let free = |stream: rmm_core::StreamRef<'_>| {
            // SAFETY: the contract of `deallocate`, as of RMM's: the memory is this resource's, of
            // this size, and no work uses it that does not come before this place on the stream.
            unsafe { resource.deallocate(stream, pointer, layout) };
        };
        wrong_free::raised_by(|| {
            // SAFETY: it is the engine's code, which reaches Python objects through `attached`.
            let (freed, _) = unsafe { kept_until_wait(py, || stream.with(free)) };
            freed.map_err(|error| of_call(py, &error))
        })
    }

    /// Returns memory that the resource and those below it do not use, until each has no more than
    /// `keep` bytes left, and returns how many bytes left the stack: 0 if nothing in it holds any.
    /// Memory whose last use may not be over stays, unless the call may wait for it. Not in RMM.
    #[pyo3(signature = (keep=0, *, wait=false))]
    pub(crate) fn trim(&self, py: Python<'_>, keep: u64, wait: bool) -> PyResult<u64> {
        let engine = self.engine()?;
        make(py, || Ok(if wait { engine.trim_blocking(keep) } else { engine.trim(keep) }))
    }

    /// Grants a device read and write access to all device memory of the resource and of those
    /// below it, now and later: to virtual memory and driver pools, for which
    /// ``cudaDeviceEnablePeerAccess`` does nothing. Raises an error if it is no peer. Not in RMM.
    fn grant_access(&self, py: Python<'_>, device: usize) -> PyResult<()> {
        let engine = self.engine()?;
        make(py, || rmm_resources::grant_access(engine, Device::new(device)?))
    }

    /// Whether kernels may use the memory. Not in RMM.
    #[getter]
    fn is_device_accessible(&self) -> PyResult<bool> {
        Ok(self.engine()?.accessibility().contains(MemoryCaps::DEVICE_ACCESSIBLE))
    }

    /// Whether the host may use the memory: pinned, managed and system memory. Not in RMM.
    #[getter]
    fn is_host_accessible(&self) -> PyResult<bool> {
        Ok(self.engine()?.accessibility().contains(MemoryCaps::HOST_ACCESSIBLE))
    }

    /// Whether it is managed memory, which moves between host and device. Not in RMM.
    #[getter]
    fn is_managed(&self) -> PyResult<bool> {
        Ok(self.engine()?.try_property::<MemoryKind>() == Some(MemoryKind::Managed))
    }

    /// The resource and those below it as a tree of text, with their sizes and counters.
    fn describe(&self, py: Python<'_>) -> PyResult<String> {
        let resource = self.engine()?;
        Ok(py.detach(|| resource.describe().to_string()))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let name = slf.get_type().name()?;
        Ok(match shown::first_line(slf.get().description(slf.py())) {
            Some(line) => format!("<{name}: {line}>"),
            None => format!("<{name}>"),
        })
    }

    /// What a notebook shows.
    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        let name = slf.get_type().name()?.to_string();
        Ok(shown::html(slf.get().description(slf.py()), &name))
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the signature is PyO3's")]
    fn __traverse__(&self, _visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        distinct("DeviceMemoryResource");
        Ok(())
    }
}

/// The base of the resources that take their memory from another one.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = DeviceMemoryResource,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct UpstreamResourceAdaptor {
    upstream: Py<DeviceMemoryResource>,
}

impl UpstreamResourceAdaptor {
    /// What every class with an upstream begins with.
    pub(crate) fn over(upstream: Upstream<'_>, engine: AnyResource) -> PyClassInitializer<Self> {
        let upstream = upstream.0.unbind();
        DeviceMemoryResource::over_engine(engine).add_subclass(Self { upstream })
    }
}

#[pymethods]
impl UpstreamResourceAdaptor {
    #[new]
    #[pyo3(signature = (upstream_mr, *_args, **_kwargs))]
    fn py_new(
        upstream_mr: Upstream<'_>,
        _args: &Bound<'_, pyo3::types::PyTuple>,
        _kwargs: Option<&Bound<'_, pyo3::types::PyDict>>,
    ) -> PyClassInitializer<Self> {
        PyClassInitializer::from(DeviceMemoryResource::bare())
            .add_subclass(Self { upstream: upstream_mr.0.unbind() })
    }

    /// The resource that this one takes its memory from: the object that was given.
    #[getter]
    fn upstream_mr(&self, py: Python<'_>) -> Py<DeviceMemoryResource> {
        self.upstream.clone_ref(py)
    }

    /// As the property `upstream_mr`.
    fn get_upstream(&self, py: Python<'_>) -> Py<DeviceMemoryResource> {
        self.upstream.clone_ref(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        distinct("UpstreamResourceAdaptor");
        visit.call(&self.upstream)
    }
}

/// A resource argument.
#[derive(Debug)]
pub(crate) struct Upstream<'py>(pub(crate) Bound<'py, DeviceMemoryResource>);

impl Upstream<'_> {
    /// The engine's resource.
    pub(crate) fn engine(&self) -> PyResult<AnyResource> {
        self.0.get().engine().cloned()
    }
}

impl<'py> FromPyObject<'_, 'py> for Upstream<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is_none() {
            return Err(wrong_type("Argument `upstream_mr` must not be None"));
        }
        if let Ok(resource) = object.cast::<DeviceMemoryResource>() {
            return Ok(Self(resource.to_owned()));
        }
        let kind = object.get_type().name()?;
        Err(wrong_type(format!("a resource must be a DeviceMemoryResource, not {kind}")))
    }
}
