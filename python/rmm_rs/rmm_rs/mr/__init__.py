"""Memory resources, and the current one of each device."""

from rmm_rs.mr import experimental
from rmm_rs.pylibrmm.memory_resource._memory_resource import *  # noqa: F403

# Not in RMM, and so not in `__all__`.
from rmm_rs.pylibrmm.memory_resource._memory_resource import (
    AlignedResourceAdaptor as AlignedResourceAdaptor,
    BackingMemoryResource as BackingMemoryResource,
    Budget as Budget,
    CudaAsyncPinnedMemoryResource as CudaAsyncPinnedMemoryResource,
    FallbackMemoryResource as FallbackMemoryResource,
    RegisteredHostMemoryResource as RegisteredHostMemoryResource,
    Reservation as Reservation,
    SpecMemoryResource as SpecMemoryResource,
    TaggedResourceAdaptor as TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor as ThreadSafeResourceAdaptor,
    VirtualMemoryResource as VirtualMemoryResource,
)

__all__ = [
    "ArenaMemoryResource",
    "BinningMemoryResource",
    "CallbackMemoryResource",
    "CudaAsyncMemoryResource",
    "CudaAsyncViewMemoryResource",
    "CudaMemoryResource",
    "DeviceMemoryResource",
    "FailureCallbackResourceAdaptor",
    "FixedSizeMemoryResource",
    "LimitingResourceAdaptor",
    "LoggingResourceAdaptor",
    "ManagedMemoryResource",
    "PinnedHostMemoryResource",
    "PoolMemoryResource",
    "PrefetchResourceAdaptor",
    "SamHeadroomMemoryResource",
    "StatisticsResourceAdaptor",
    "SystemMemoryResource",
    "TrackingResourceAdaptor",
    "UpstreamResourceAdaptor",
    "available_device_memory",
    "disable_logging",
    "enable_logging",
    "experimental",
    "get_current_device_resource",
    "get_log_filenames",
    "get_per_device_resource",
    "is_initialized",
    "set_current_device_resource",
    "set_per_device_resource",
]
