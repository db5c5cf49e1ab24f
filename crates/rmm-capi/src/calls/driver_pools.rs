//! Pools of the driver (`cudaMemPool_t`): one with options, and the handles of all.

use std::ffi::c_void;

use rmm_core::{AnyResource, Introspect as _};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, DriverPool, ExportHandleTypes,
};

use crate::handle::failure::Failure;
use crate::handle::library::clear_mut;
use crate::handle::resource::{self, ResourceHandle, borrow};
use crate::handle::sized::{self, Sized};
use crate::handle::status::Status;
use crate::handle::{find, guard};

/// Flag of a pool of the driver: free memory above `release_threshold` is released at each
/// synchronization. Without it the pool keeps all.
pub const RMM_RS_ASYNC_RELEASE_ABOVE: u32 = 1;
/// Flag of a pool of the driver: the device's decompression engine need not access its memory.
pub const RMM_RS_ASYNC_NO_DECOMPRESSION: u32 = 2;

/// A type of handle as which memory is exported: a file descriptor, for processes of this machine
/// (`cudaMemHandleTypePosixFileDescriptor`).
pub const RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR: u32 = 1;
/// A type of handle of a pool: an NT handle (`cudaMemHandleTypeWin32`).
pub const RMM_RS_EXPORT_WIN32: u32 = 2;
/// A type of handle of a pool: a kernel-mode handle of Windows (`cudaMemHandleTypeWin32Kmt`).
pub const RMM_RS_EXPORT_WIN32_KMT: u32 = 4;
/// A type of handle: 64 bytes, for all machines of an `NVLink` domain (`cudaMemHandleTypeFabric`).
pub const RMM_RS_EXPORT_FABRIC: u32 = 8;

/// The options of a pool of the driver. All zeros, but for the size, are the defaults.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AsyncOptions {
    /// `sizeof(rmm_rs_async_options)`, set by the caller.
    pub size: usize,
    /// Bytes to reserve at once.
    pub initial_size: u64,
    /// The most bytes to reserve; 0 for no limit. It needs CUDA 12.2.
    pub maximum_size: u64,
    /// For `RMM_RS_ASYNC_RELEASE_ABOVE`.
    pub release_threshold: u64,
    /// As what the pool can be exported: a sum of `RMM_RS_EXPORT_*`.
    pub export_handle_types: u32,
    /// Any of `RMM_RS_ASYNC_RELEASE_ABOVE` and `RMM_RS_ASYNC_NO_DECOMPRESSION`.
    pub flags: u32,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers only.
unsafe impl Sized for AsyncOptions {}

/// Makes a resource over a pool of the driver of its own, as `rmm_rs_async_resource_new`, with
/// further options. Null options are the defaults.
///
/// Source: `rmm::mr::cuda_async_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_async_resource_new_with_options(
    options: *const AsyncOptions,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        let mut builder = CudaAsyncMemoryResource::builder();
        if !options.is_null() {
            // SAFETY: by the clause on structures, it may be read and is as large as it says.
            let options = unsafe { sized::read("rmm_rs_async_options", options) }?;
            let AsyncOptions { size: _, initial_size, maximum_size, release_threshold, .. } =
                options;
            let types = options.export_handle_types;
            let types = ExportHandleTypes::from_bits(types).ok_or_else(|| {
                Failure::invalid(format!("{types:#x} is no sum of types of handles"))
            })?;
            let flags = options.flags;
            if flags & !(RMM_RS_ASYNC_RELEASE_ABOVE | RMM_RS_ASYNC_NO_DECOMPRESSION) != 0 {
                return Err(Failure::invalid(format!("{flags:#x} is no sum of flags of a pool")));
            }
            builder = builder.initial_size(initial_size).maximum_size(maximum_size);
            builder = builder.export_handle_types(types);
            if flags & RMM_RS_ASYNC_RELEASE_ABOVE != 0 {
                builder = builder.release_threshold(release_threshold);
            }
            builder = builder.hardware_decompress(flags & RMM_RS_ASYNC_NO_DECOMPRESSION == 0);
        }
        Ok(ResourceHandle::base(AnyResource::new(builder.build()?)))
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// The driver's pool of the first resource of a stack that has one.
fn driver_pool(any: &AnyResource<()>) -> Option<&DriverPool> {
    any.stack().find_map(|resource| {
        let resource = resource.as_any();
        let own = resource.downcast_ref::<CudaAsyncMemoryResource>();
        let view = || resource.downcast_ref::<CudaAsyncViewMemoryResource>();
        let managed = || resource.downcast_ref::<CudaAsyncManagedMemoryResource>();
        let pinned = || resource.downcast_ref::<CudaAsyncPinnedMemoryResource>();
        own.map(CudaAsyncMemoryResource::pool)
            .or_else(|| view().map(CudaAsyncViewMemoryResource::pool))
            .or_else(|| managed().map(CudaAsyncManagedMemoryResource::pool))
            .or_else(|| pinned().map(CudaAsyncPinnedMemoryResource::pool))
    })
}

/// Stores the pool of the driver (`cudaMemPool_t`) of the resource, or of the first one below it
/// that is over such a pool. It stays the resource's: it ends with it.
///
/// Source: `cuda_async_memory_resource::pool_handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_pool_handle(
    resource: *const ResourceHandle,
    out: *mut *mut c_void,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear_mut(out) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let pool = driver_pool(&resource.any);
        let pool = pool.ok_or_else(|| find::none(resource, "is over a pool of the driver"))?;
        if out.is_null() {
            return Err(Failure::invalid("the place for the pool is null"));
        }
        // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
        unsafe { out.write(pool.as_raw().as_raw()) };
        Ok(())
    })
}
