//! The resources that ask the driver, or the program's own allocator, for memory.
//!
//! | resource | memory | who may use it | stream order |
//! |---|---|---|---|
//! | [`CudaMemoryResource`] | device | devices | no: `cudaMalloc` and `cudaFree`, which waits for the device |
//! | [`VirtualMemoryResource`] | device | devices | no: `cuMemMap` at addresses that were reserved before, so that blocks are neighbours |
//! | [`CudaAsyncMemoryResource`] | device | devices | a driver pool of its own, `cudaMallocAsync` |
//! | [`CudaAsyncViewMemoryResource`] | device | devices | a driver pool that it does not own |
//! | [`ManagedMemoryResource`] | managed | devices and host | no: `cudaMallocManaged` |
//! | [`CudaAsyncManagedMemoryResource`] | managed | devices and host | the driver's own pool of managed memory, or one of its own |
//! | [`PinnedHostMemoryResource`] | pinned host | devices and host | no: `cudaHostAlloc` |
//! | [`CudaAsyncPinnedMemoryResource`] | pinned host | devices and host | a driver pool of its own, or the driver's |
//! | [`SystemMemoryResource`] | host | devices that can, and host | no: the global allocator |
//! | [`SamHeadroomMemoryResource`] | host, better kept on the device | devices that can, and host | no: the global allocator |
//! | [`HostMemoryResource`] | host | host | no: the global allocator |
//!
//! What a machine lacks is told when a resource is made:
//! [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported), with the device and what it cannot
//! do. Resources over driver pools show the pool as a [`DriverPool`].
//!
//! And the resource that each device uses where a program names none: [`current_device_resource`],
//! [`set_current_device_resource`]. Resources that divide memory up are in `rmm-adaptors`.

mod capability;
mod cuda;
mod cuda_async;
mod cuda_async_managed;
mod cuda_async_pinned;
mod cuda_async_view;
mod current;
mod driver_pool;
mod host;
mod host_block;
mod kind;
mod managed;
mod pinned_host;
mod sam_headroom;
mod system;
mod virtual_memory;

pub use cuda::CudaMemoryResource;
pub use cuda_async::{CudaAsyncMemoryResource, CudaAsyncMemoryResourceBuilder, ExportHandleTypes};
pub use cuda_async_managed::{
    CudaAsyncManagedMemoryResource, CudaAsyncManagedMemoryResourceBuilder,
};
pub use cuda_async_pinned::{CudaAsyncPinnedMemoryResource, CudaAsyncPinnedMemoryResourceBuilder};
pub use cuda_async_view::CudaAsyncViewMemoryResource;
pub use current::{
    CurrentResourceGuard, current_device_resource, per_device_resource,
    reset_current_device_resource, reset_per_device_resource, set_current_device_resource,
    set_per_device_resource, with_current_device_resource,
};
#[cfg(unix)]
pub use driver_pool::ImportedPool;
pub use driver_pool::{DriverPool, PoolReuse};
pub use host::HostMemoryResource;
pub use managed::ManagedMemoryResource;
pub use pinned_host::{PinnedFlags, PinnedHostMemoryResource};
pub use sam_headroom::SamHeadroomMemoryResource;
pub use system::SystemMemoryResource;
pub use virtual_memory::{
    VirtualMemoryResource, VirtualMemoryResourceBuilder, VirtualMemoryStatistics,
};
