//! Resources that take their memory from the driver or the operating system.

use std::num::NonZero;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rmm_core::AnyResource;
use rmm_core::sys::CuMemPool;
use rmm_resources::{
    CudaAsyncManagedMemoryResource as AsyncManaged, CudaAsyncMemoryResource as Async,
    CudaAsyncPinnedMemoryResource as AsyncPinned, CudaAsyncViewMemoryResource as AsyncView,
    CudaMemoryResource as Cuda, DefaultDeviceMemory, ExportHandleTypes, Location,
    ManagedMemoryResource as Managed, NamedExport, PinnedHostMemoryResource as Pinned,
    RegisteredHostMemoryResource as Registered, SamHeadroomMemoryResource as SamHeadroom,
    SystemMemoryResource as System, VirtualMemoryResource as Virtual, VirtualMemoryResourceBuilder,
};

use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::sizes::Bytes;
use crate::interpreter::truth::Truth;
use crate::resource::{DeviceMemoryResource, make};

/// Classes without arguments.
macro_rules! plain {
    ($($(#[$docs:meta])* $name:ident: $build:expr;)*) => { $(
        $(#[$docs])*
        #[derive(Debug)]
        #[pyclass(
            subclass,
            frozen,
            extends = DeviceMemoryResource,
            module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
        )]
        pub(crate) struct $name;

        #[pymethods]
        impl $name {
            // A class that is derived in Python may have arguments of its own.
            #[new]
            #[pyo3(signature = (*_args, **_kwargs), text_signature = "()")]
            fn py_new(
                py: Python<'_>,
                _args: &Bound<'_, PyTuple>,
                _kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<PyClassInitializer<Self>> {
                let engine = make(py, || $build)?;
                Ok(DeviceMemoryResource::over_engine(AnyResource::new(engine)).add_subclass(Self))
            }

            fn __init__(&self) {}
        }
    )* };
}

plain! {
    /// Memory of the device from `cudaMalloc`, which a free waits for.
    CudaMemoryResource: Ok(Cuda::new());
    /// Managed memory from `cudaMallocManaged`, which moves between host and device.
    ManagedMemoryResource: Ok(Managed::new());
    /// Memory of the operating system, on devices that can use it.
    SystemMemoryResource: System::new();
    /// Pinned memory of the host from `cudaHostAlloc`, which both host and device can use.
    PinnedHostMemoryResource: Ok(Pinned::new());
    /// What the default pool stands on: virtual memory where the current device has it, and
    /// `cudaMalloc` elsewhere. Not in RMM.
    BackingMemoryResource: DefaultDeviceMemory::of_device();
    /// The driver's pool of pinned host memory. Not in RMM's Python package.
    CudaAsyncPinnedMemoryResource: AsyncPinned::new();
}

/// The device's virtual memory (`cuMemCreate`, `cuMemMap`), for a pool to stand on: its blocks grow
/// in place, and pages are returned one by one. Not in RMM.
///
/// Parameters
/// ----------
/// export : str, optional
///     What its memory can be exported as to other processes: "posix_fd", "fabric", or
///     "fabric_or_posix_fd" for fabric handles if the device can make them, else descriptors.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = DeviceMemoryResource,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct VirtualMemoryResource;

/// A builder of virtual memory that is exported as an argument says.
fn exporting(export: Option<&str>) -> PyResult<VirtualMemoryResourceBuilder> {
    let builder = Virtual::builder();
    let Some(name) = export else { return Ok(builder) };
    let named = name.parse::<NamedExport>().map_err(PyValueError::new_err)?;
    Ok(builder.export_named(named))
}

#[pymethods]
impl VirtualMemoryResource {
    #[new]
    #[pyo3(signature = (export=None))]
    fn py_new(py: Python<'_>, export: Option<&str>) -> PyResult<PyClassInitializer<Self>> {
        let builder = exporting(export)?;
        let engine = make(py, || builder.build())?;
        Ok(DeviceMemoryResource::over_engine(AnyResource::new(engine)).add_subclass(Self))
    }
}

/// Virtual memory of the host, for a pool to stand on: devices and the host use it by the same
/// addresses. Not in RMM.
///
/// Parameters
/// ----------
/// numa_node : int or str
///     The node's number, or "device" for that of the current device.
/// export : str, optional
///     What its memory can be exported as to other processes, as for `VirtualMemoryResource`.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = DeviceMemoryResource,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct HostVirtualMemoryResource;

#[pymethods]
impl HostVirtualMemoryResource {
    #[new]
    #[pyo3(
        signature = (numa_node=None, export=None),
        text_signature = "(numa_node='device', export=None)"
    )]
    fn py_new(
        py: Python<'_>,
        numa_node: Option<&Bound<'_, PyAny>>,
        export: Option<&str>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let location = match numa_node {
            None => Location::HostNumaOfDevice,
            Some(node) => match node.extract::<u32>() {
                Ok(node) => Location::HostNuma(node),
                Err(_) if node.extract::<&str>().is_ok_and(|text| text == "device") => {
                    Location::HostNumaOfDevice
                }
                Err(_) => {
                    let text = "a NUMA node is a number or \"device\"";
                    return Err(PyValueError::new_err(text));
                }
            },
        };
        let builder = exporting(export)?;
        let engine = make(py, || builder.build_at(location))?;
        Ok(DeviceMemoryResource::over_engine(AnyResource::new(engine)).add_subclass(Self))
    }
}

/// Pinned memory of the host that comes up fast: pages that threads touch in parallel on the NUMA
/// node of the GPU, and which are then registered with the driver. For large pools. Not in RMM.
///
/// Parameters
/// ----------
/// threads : int, optional
///     How many threads touch the pages; up to 16 by default.
/// numa_node : int or str
///     The node's number, "device" for that of the current device, or "any".
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = DeviceMemoryResource,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct RegisteredHostMemoryResource;

/// The resource with the NUMA node of an argument.
fn on_node(resource: Registered, argument: Option<&Bound<'_, PyAny>>) -> PyResult<Registered> {
    let Some(argument) = argument else { return Ok(resource) };
    if let Ok(node) = argument.extract::<u32>() {
        return Ok(resource.on_node(Some(node)));
    }
    match argument.extract::<&str>() {
        Ok("device") => Ok(resource),
        Ok("any") => Ok(resource.on_node(None)),
        _ => Err(PyValueError::new_err("a NUMA node is a number, \"device\" or \"any\"")),
    }
}

#[pymethods]
impl RegisteredHostMemoryResource {
    #[new]
    #[pyo3(
        signature = (threads=None, numa_node=None),
        text_signature = "(threads=None, numa_node='device')"
    )]
    fn py_new(
        py: Python<'_>,
        threads: Option<NonZero<usize>>,
        numa_node: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let engine = on_node(Registered::new(), numa_node)?;
        let engine =
            make(py, || Ok(threads.map_or(engine, |threads| engine.with_threads(threads))))?;
        Ok(DeviceMemoryResource::over_engine(AnyResource::new(engine)).add_subclass(Self))
    }
}

/// A pool of the driver of its own (`cudaMallocAsync`).
///
/// Parameters
/// ----------
/// initial_pool_size : int or str, optional
///     Bytes to reserve at once.
/// release_threshold : int, optional
///     Free memory above it is released at each synchronization; by default none is.
/// enable_ipc, enable_fabric : bool
///     Whether the memory can be exported by file descriptors, by fabric handles, or both.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = DeviceMemoryResource,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct CudaAsyncMemoryResource {
    engine: DropDetached<Async>,
}

#[pymethods]
impl CudaAsyncMemoryResource {
    #[new]
    #[pyo3(
        signature = (
            initial_pool_size=None, release_threshold=None, enable_ipc=Truth(false),
            enable_fabric=Truth(false)
        ),
        text_signature = "(initial_pool_size=None, release_threshold=None, enable_ipc=False, \
                          enable_fabric=False)"
    )]
    fn py_new(
        py: Python<'_>,
        initial_pool_size: Option<Bytes>,
        release_threshold: Option<u64>,
        enable_ipc: Truth,
        enable_fabric: Truth,
    ) -> PyResult<PyClassInitializer<Self>> {
        let mut types = ExportHandleTypes::empty();
        types.set(ExportHandleTypes::POSIX_FILE_DESCRIPTOR, enable_ipc.0);
        types.set(ExportHandleTypes::FABRIC, enable_fabric.0);
        let threshold = release_threshold.unwrap_or(u64::MAX);
        let build = || {
            let initial = initial_pool_size.map_or(0, |Bytes(initial)| initial);
            // The builder refuses a first size that is released at once. RMM does not.
            let first_threshold = threshold.max(initial);
            let mut builder = Async::builder().release_threshold(first_threshold);
            if !types.is_empty() {
                builder = builder.export_handle_types(types);
            }
            if initial > 0 {
                builder = builder.initial_size(initial);
            }
            let made = builder.build()?;
            if first_threshold != threshold {
                made.pool().set_release_threshold(threshold)?;
            }
            Ok(made)
        };
        let engine = make(py, build).map_err(|error| {
            let is_of_types =
                !types.is_empty() && !error.is_instance_of::<pyo3::exceptions::PyMemoryError>(py);
            if is_of_types {
                let text =
                    format!("{}: Requested IPC memory handle type not supported", error.value(py));
                PyRuntimeError::new_err(text)
            } else {
                error
            }
        })?;
        let base = DeviceMemoryResource::over_engine(AnyResource::new(engine.clone()));
        Ok(base.add_subclass(Self { engine: DropDetached::new(engine) }))
    }

    /// The address of the driver's pool (`cudaMemPool_t`). Not in RMM.
    fn pool_handle(&self) -> usize {
        self.engine.peek().as_raw().as_raw().addr()
    }
}

/// A pool of the driver that belongs to the caller, who keeps it.
///
/// Parameters
/// ----------
/// pool_handle : cudaMemPool_t or CUmemoryPool
///     Of `cuda.bindings`.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = DeviceMemoryResource,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct CudaAsyncViewMemoryResource {
    handle: usize,
}

#[pymethods]
impl CudaAsyncViewMemoryResource {
    #[new]
    #[pyo3(signature = (pool_handle))]
    fn py_new(
        py: Python<'_>,
        pool_handle: &Bound<'_, PyAny>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let kind = pool_handle.get_type().name()?;
        if !["cudaMemPool_t", "CUmemoryPool"].contains(&&*kind.to_cow()?) {
            let text = "pool_handle must be a cudaMemPool_t or CUmemoryPool";
            return Err(PyValueError::new_err(text));
        }
        let handle: usize = pool_handle.call_method0("__int__")?.extract()?;
        let build = || {
            let raw = CuMemPool::from_raw(std::ptr::with_exposed_provenance_mut(handle));
            // SAFETY: the contract of the class: the pool exists for as long as the resource is
            // used, and belongs to the caller.
            unsafe { AsyncView::from_raw(raw) }
        };
        let base = DeviceMemoryResource::over_engine(AnyResource::new(make(py, build)?));
        Ok(base.add_subclass(Self { handle }))
    }

    /// The address of the driver's pool.
    fn pool_handle(&self) -> usize {
        self.handle
    }
}

/// The driver's default pool of managed memory. Needs CUDA 13.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = DeviceMemoryResource,
    module = "rmm_rs.pylibrmm.memory_resource.experimental"
)]
pub(crate) struct CudaAsyncManagedMemoryResource {
    engine: DropDetached<AsyncManaged>,
}

#[pymethods]
impl CudaAsyncManagedMemoryResource {
    #[new]
    fn py_new(py: Python<'_>) -> PyResult<PyClassInitializer<Self>> {
        let engine = make(py, AsyncManaged::new)?;
        let base = DeviceMemoryResource::over_engine(AnyResource::new(engine.clone()));
        Ok(base.add_subclass(Self { engine: DropDetached::new(engine) }))
    }

    /// The address of the driver's pool.
    fn pool_handle(&self) -> usize {
        self.engine.peek().as_raw().as_raw().addr()
    }
}

/// Memory of the operating system that leaves room on the device.
///
/// Parameters
/// ----------
/// headroom : int
///     Bytes of the device's memory to leave free.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = DeviceMemoryResource,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct SamHeadroomMemoryResource;

#[pymethods]
impl SamHeadroomMemoryResource {
    #[new]
    #[pyo3(signature = (headroom))]
    fn py_new(py: Python<'_>, headroom: u64) -> PyResult<PyClassInitializer<Self>> {
        let engine = make(py, || SamHeadroom::new(headroom))?;
        Ok(DeviceMemoryResource::over_engine(AnyResource::new(engine)).add_subclass(Self))
    }
}

/// Adds the classes.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CudaMemoryResource>()?;
    module.add_class::<ManagedMemoryResource>()?;
    module.add_class::<SystemMemoryResource>()?;
    module.add_class::<PinnedHostMemoryResource>()?;
    module.add_class::<VirtualMemoryResource>()?;
    module.add_class::<HostVirtualMemoryResource>()?;
    module.add_class::<BackingMemoryResource>()?;
    module.add_class::<RegisteredHostMemoryResource>()?;
    module.add_class::<CudaAsyncPinnedMemoryResource>()?;
    module.add_class::<CudaAsyncMemoryResource>()?;
    module.add_class::<CudaAsyncViewMemoryResource>()?;
    module.add_class::<CudaAsyncManagedMemoryResource>()?;
    module.add_class::<SamHeadroomMemoryResource>()
}
