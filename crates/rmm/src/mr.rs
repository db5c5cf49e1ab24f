//! Memory resources: driver resources, suballocators and adaptors with their builders and
//! statistics, type-erased resources, and the current resource of each device.
//!
//! Named after RMM's namespace `rmm::mr`. The root re-exports the most common ones.

#[cfg(feature = "tracing")]
pub use rmm_adaptors::TracingResourceAdaptor;
pub use rmm_adaptors::{
    AlignedResourceAdaptor, AllocationCounters, ArenaMemoryResource, ArenaMemoryResourceBuilder,
    ArenaReport, BinningMemoryResource, BinningMemoryResourceBuilder, CallSite,
    CallbackMemoryResource, Contents, CopyProgress, Counter, FailedAllocation,
    FailureCallbackResourceAdaptor, FailureCallbackResourceAdaptorBuilder, FallbackMemoryResource,
    FixedSizeMemoryResource, FixedSizeMemoryResourceBuilder, GrowthPolicy, LOG_FILE_VARIABLE,
    LOG_HEADER, LimitingResourceAdaptor, LoggingResourceAdaptor, LoggingResourceAdaptorBuilder,
    ManualClock, OutstandingAllocation, PoolBlock, PoolMemoryResource, PoolMemoryResourceBuilder,
    PoolPreset, PoolStatistics, PrefetchResourceAdaptor, Pressure, PressureCallback, ReleasePolicy,
    Reservation, SleepOptions, SpanPolicy, StatisticsResourceAdaptor, StatisticsScope, Tag,
    TagScope, TagUsage, TaggedResourceAdaptor, ThreadSafeResourceAdaptor, TrackingFinding,
    TrackingReport, TrackingResourceAdaptor, TrackingResourceAdaptorBuilder, default_pool,
};
pub use rmm_core::{
    AnyResource, AnySyncResource, DeviceAsyncResourceRef, DeviceResource, DeviceResourceRef,
    HostAsyncResourceRef, HostDeviceAsyncResourceRef, HostDeviceResourceRef, HostResourceRef,
    Resource, ResourceRef, StreamBound, SyncResource, SyncResourceRef, Synchronized, per_device,
};
#[cfg(unix)]
pub use rmm_resources::ImportedPool;
pub use rmm_resources::{
    Backing, Budget, CudaAsyncManagedMemoryResource, CudaAsyncManagedMemoryResourceBuilder,
    CudaAsyncMemoryResource, CudaAsyncMemoryResourceBuilder, CudaAsyncPinnedMemoryResource,
    CudaAsyncPinnedMemoryResourceBuilder, CudaAsyncViewMemoryResource, CudaMemoryResource,
    CurrentResourceGuard, DriverPool, ExportHandleTypes, HostMemoryResource, ManagedMemoryResource,
    PinnedFlags, PinnedHostMemoryResource, PoolReuse, RegisteredHostMemoryResource,
    SamHeadroomMemoryResource, SystemMemoryResource, VirtualMemoryResource,
    VirtualMemoryResourceBuilder, VirtualMemoryStatistics, current_device_resource,
    per_device_resource, reset_current_device_resource, reset_per_device_resource,
    set_current_device_resource, set_per_device_resource, with_current_device_resource,
};
pub use rmm_spec::{RESOURCE_VARIABLE, ResourceSpec};
