//! Base resources: memory from the CUDA driver, or from the program's global allocator.
//!
//! | resource | memory | accessible to | stream order |
//! |---|---|---|---|
//! | [`CudaMemoryResource`] | device | devices | no: `cudaMalloc`, `cudaFree` |
//! | [`VirtualMemoryResource`] | device | devices | no: `cuMemMap`, adjacent blocks |
//! | [`CudaAsyncMemoryResource`] | device | devices | its own driver pool (`cudaMallocAsync`) |
//! | [`CudaAsyncViewMemoryResource`] | device | devices | a driver pool that it does not own |
//! | [`ManagedMemoryResource`] | managed | both | no: `cudaMallocManaged` |
//! | [`CudaAsyncManagedMemoryResource`] | managed | both | the driver's pool, or its own |
//! | [`PinnedHostMemoryResource`] | pinned host | both | no: `cudaHostAlloc` |
//! | [`RegisteredHostMemoryResource`] | pinned host | both | no: `cudaHostRegister` of touched pages |
//! | [`HostVirtualMemoryResource`] | pinned host | both | no: `cuMemMap`, adjacent blocks |
//! | [`CudaAsyncPinnedMemoryResource`] | pinned host | both | its own driver pool, or the default |
//! | [`SystemMemoryResource`] | host | some devices, host | no: the global allocator |
//! | [`SamHeadroomMemoryResource`] | host, prefers the device | some devices, host | no: global allocator |
//! | [`HostMemoryResource`] | host | host | no: the global allocator |
//!
//! The constructor of a resource that the machine does not support fails with
//! [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported), naming the device and the missing
//! capability. Resources over driver pools give access to the pool as a [`DriverPool`].
//!
//! The current resource of each device, which is used where a program names none, is read and set
//! by [`current_device_resource`] and [`set_current_device_resource`]. Suballocators and adaptors
//! are in `rmm-adaptors`.

mod budget;
mod capability;
mod cuda;
mod cuda_async;
mod cuda_async_managed;
mod cuda_async_pinned;
mod cuda_async_view;
mod current;
mod default_device_memory;
mod driver_pool;
mod host;
mod host_block;
mod kind;
mod managed;
mod numa;
mod peer_access;
mod pinned_host;
mod registered_host;
mod sam_headroom;
#[cfg(unix)]
mod sharing;
mod system;
mod traits;
mod virtual_memory;

pub use budget::Budget;
pub use cuda::CudaMemoryResource;
pub use cuda_async::{CudaAsyncMemoryResource, CudaAsyncMemoryResourceBuilder, ExportHandleTypes};
pub use cuda_async_managed::{
    CudaAsyncManagedMemoryResource, CudaAsyncManagedMemoryResourceBuilder,
};
pub use cuda_async_pinned::{CudaAsyncPinnedMemoryResource, CudaAsyncPinnedMemoryResourceBuilder};
pub use cuda_async_view::CudaAsyncViewMemoryResource;
pub use current::{
    CurrentResourceGuard, current_device_resource, first_resource_by, per_device_resource,
    reset_current_device_resource, reset_per_device_resource, set_current_device_resource,
    set_per_device_resource, with_current_device_resource,
};
pub use default_device_memory::DefaultDeviceMemory;
#[cfg(unix)]
pub use driver_pool::ImportedPool;
pub use driver_pool::{DriverPool, PoolReuse};
pub use host::HostMemoryResource;
pub use managed::ManagedMemoryResource;
pub use peer_access::grant_access;
pub use pinned_host::{PinnedFlags, PinnedHostMemoryResource};
pub use registered_host::RegisteredHostMemoryResource;
pub use sam_headroom::SamHeadroomMemoryResource;
#[cfg(unix)]
pub use sharing::{
    Export, ImportAccess, ImportedMemory, Piece, PieceRange, ShareableHandle, export_range,
};
pub use system::SystemMemoryResource;
#[doc(hidden)]
pub use virtual_memory::NamedExport;
pub use virtual_memory::{
    HostVirtualMemoryResource, Location, ReservedAddresses, VirtualMemoryResource,
    VirtualMemoryResourceBuilder, VirtualMemoryStatistics,
};
