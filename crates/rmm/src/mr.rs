//! Memory resources: those of the driver, suballocators and adaptors. What belongs to one of them
//! alone, such as its options, is in a module beside it.
//!
//! Named after RMM's namespace `rmm::mr`. The root re-exports the most common ones.

pub mod arena;
pub mod bins;
pub mod current;
pub mod driver_pool;
pub mod failure_callback;
pub mod logging;
pub mod pinned_host;
pub mod pool;
pub mod recorder;
pub mod statistics;
pub mod tagged;
pub mod tracking;
pub mod virtual_memory;

#[cfg(feature = "tracing")]
pub use rmm_adaptors::TracingResourceAdaptor;
pub use rmm_adaptors::{
    AlignedResourceAdaptor, ArenaMemoryResource, BinningMemoryResource, CallbackMemoryResource,
    FailureCallbackResourceAdaptor, FallbackMemoryResource, FixedSizeMemoryResource,
    LimitingResourceAdaptor, LoggingResourceAdaptor, PoolMemoryResource, PrefetchResourceAdaptor,
    RecorderResourceAdaptor, StatisticsResourceAdaptor, TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor, TrackingResourceAdaptor, default_pool,
};
pub use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, CudaMemoryResource, HostMemoryResource, HostVirtualMemoryResource,
    ManagedMemoryResource, PinnedHostMemoryResource, RegisteredHostMemoryResource,
    SamHeadroomMemoryResource, SystemMemoryResource, VirtualMemoryResource,
};
