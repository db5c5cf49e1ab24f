//! Resources that take their memory from the driver or the operating system.

use std::ffi::c_void;
use std::num::NonZero;

use rmm_core::sys::CuMemPool;
use rmm_core::{AnyResource, Error, Resource};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, CudaMemoryResource, ExportHandleTypes, HostMemoryResource,
    HostVirtualMemoryResource, Location, ManagedMemoryResource, PinnedHostMemoryResource,
    RegisteredHostMemoryResource, SamHeadroomMemoryResource, SystemMemoryResource,
    VirtualMemoryResource,
};

use crate::handle::failure::Failure;
use crate::handle::resource::{self, ResourceHandle};
use crate::handle::status::Status;

/// # Safety
/// `out` is null or may be written to.
unsafe fn make<R>(out: *mut *const ResourceHandle, build: impl FnOnce() -> Result<R, Error>) -> i32
where
    R: Resource + PartialEq + 'static,
{
    let build = || Ok::<_, Failure>(ResourceHandle::base(AnyResource::new(build()?)));
    // SAFETY: the caller's contract.
    unsafe { resource::make(out, build) }
}

/// Makes a resource over `cuMemAlloc` (`cudaMalloc`).
///
/// Source: `rmm::mr::cuda_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_cuda_resource_new(out: *mut *const ResourceHandle) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, || Ok(CudaMemoryResource::new())) }
}

/// Makes a resource over a pool of the driver (`cudaMallocAsync`) of its own. `initial_size` bytes
/// are reserved at once; 0 for none. Free memory above `release_threshold` is released at each
/// synchronization; `UINT64_MAX` keeps all.
///
/// Source: `rmm::mr::cuda_async_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_async_resource_new(
    initial_size: u64,
    release_threshold: u64,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        let builder = CudaAsyncMemoryResource::builder().release_threshold(release_threshold);
        if initial_size > 0 { builder.initial_size(initial_size) } else { builder }.build()
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, build) }
}

/// Makes a resource over a pool of the driver (`cudaMemPool_t`) that belongs to the caller: the
/// pool exists until the resource and all its memory are gone, was not imported from another
/// process, and the current device has access to its memory. Null is the current device's default
/// pool.
///
/// Source: `rmm::mr::cuda_async_view_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_async_view_resource_new(
    cuda_pool: *mut c_void,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        if cuda_pool.is_null() {
            return CudaAsyncViewMemoryResource::of_default_pool(rmm_core::Device::current()?);
        }
        // SAFETY: the clause on pools of the driver is the contract of `from_raw`.
        unsafe { CudaAsyncViewMemoryResource::from_raw(CuMemPool::from_raw(cuda_pool)) }
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, build) }
}

/// Makes a resource over the driver's pool of managed memory.
///
/// Source: `rmm::mr::cuda_async_managed_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_async_managed_resource_new(
    out: *mut *const ResourceHandle,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, CudaAsyncManagedMemoryResource::new) }
}

/// Makes a resource over the driver's pool of pinned host memory.
///
/// Source: `rmm::mr::cuda_async_pinned_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_async_pinned_resource_new(
    out: *mut *const ResourceHandle,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, CudaAsyncPinnedMemoryResource::new) }
}

/// Makes a resource of managed memory (`cudaMallocManaged`).
///
/// Source: `rmm::mr::managed_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_managed_resource_new(out: *mut *const ResourceHandle) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, || Ok(ManagedMemoryResource::new())) }
}

/// Makes a resource of pinned host memory (`cudaHostAlloc`).
///
/// Source: `rmm::mr::pinned_host_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pinned_resource_new(out: *mut *const ResourceHandle) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, || Ok(PinnedHostMemoryResource::new())) }
}

/// The pages are on the NUMA node of the current device.
pub const RMM_RS_NUMA_NODE_OF_DEVICE: i32 = -1;
/// The pages are where the operating system puts them.
pub const RMM_RS_NUMA_NODE_ANY: i32 = -2;

/// Makes a resource of pinned host memory that comes up fast: pages that `threads` threads touch in
/// parallel on a NUMA node, and which are then registered with the driver (`cudaHostRegister`). 0
/// threads are the default, up to 16. `numa_node` is a node's number or one of
/// `RMM_RS_NUMA_NODE_*`. For large pools and their initial size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_registered_resource_new(
    threads: u32,
    numa_node: i32,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        let resource = RegisteredHostMemoryResource::new();
        let resource = match NonZero::new(usize::try_from(threads).unwrap_or(usize::MAX)) {
            Some(threads) => resource.with_threads(threads),
            None => resource,
        };
        match (numa_node, u32::try_from(numa_node)) {
            (_, Ok(node)) => Ok(resource.on_node(Some(node))),
            (RMM_RS_NUMA_NODE_OF_DEVICE, _) => Ok(resource),
            (RMM_RS_NUMA_NODE_ANY, _) => Ok(resource.on_node(None)),
            _ => {
                let text = format!("{numa_node} is no NUMA node");
                Err(Error::invalid_argument("registered", text))
            }
        }
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, build) }
}

/// Makes a resource of the system's memory, on devices that access pageable memory.
///
/// Source: `rmm::mr::system_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_system_resource_new(out: *mut *const ResourceHandle) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, SystemMemoryResource::new) }
}

/// Makes a resource of the system's memory that leaves `headroom` bytes of the device free.
///
/// Source: `rmm::mr::sam_headroom_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_sam_headroom_resource_new(
    headroom: u64,
    out: *mut *const ResourceHandle,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, || SamHeadroomMemoryResource::new(headroom)) }
}

/// Makes a resource of pageable host memory, which the device cannot use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_host_resource_new(out: *mut *const ResourceHandle) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, || Ok(HostMemoryResource::new())) }
}

/// Makes a resource over the driver's virtual memory (`cuMemCreate`, `cuMemMap`), for a pool to
/// stand on: its blocks grow in place, and pages are returned one by one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_virtual_resource_new(out: *mut *const ResourceHandle) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, VirtualMemoryResource::new) }
}

/// Makes a resource as `rmm_rs_virtual_resource_new` does, whose memory is the host's, on the NUMA
/// node of this number or `RMM_RS_NUMA_NODE_OF_DEVICE`: devices and the host use it by the same
/// addresses. It can be exported as handles of these types (bits of `RMM_RS_EXPORT_*`), or not if
/// that is 0. `RMM_RS_REFUSED` if the device cannot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_host_virtual_resource_new(
    numa_node: i32,
    export_kinds: u32,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        let location = match (numa_node, u32::try_from(numa_node)) {
            (_, Ok(node)) => Location::HostNuma(node),
            (RMM_RS_NUMA_NODE_OF_DEVICE, _) => Location::HostNumaOfDevice,
            _ => {
                let text = format!("{numa_node} is no NUMA node");
                return Err(Error::invalid_argument("host-virtual", text));
            }
        };
        let types = ExportHandleTypes::from_bits(export_kinds).ok_or_else(|| {
            let text = format!("{export_kinds} has unknown types of handles");
            Error::invalid_argument("host-virtual", text)
        })?;
        let built: Result<HostVirtualMemoryResource, Error> =
            VirtualMemoryResource::builder().export(types).build_at(location);
        built
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { make(out, build) }
}
