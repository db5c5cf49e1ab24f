//! The driver's memory pools: options and export of
//! [`CudaAsyncMemoryResource`](super::CudaAsyncMemoryResource) and its kin.

#[cfg(unix)]
pub use rmm_resources::ImportedPool;
pub use rmm_resources::{
    CudaAsyncManagedMemoryResourceBuilder, CudaAsyncMemoryResourceBuilder,
    CudaAsyncPinnedMemoryResourceBuilder, DriverPool, ExportHandleTypes, PoolReuse,
};
