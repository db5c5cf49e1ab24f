"""The classes of memory resources that RMM does not have, which no `__all__` names."""

from rmm_rs._rmm import (
    AlignedResourceAdaptor as AlignedResourceAdaptor,
    BackingMemoryResource as BackingMemoryResource,
    Budget as Budget,
    CudaAsyncPinnedMemoryResource as CudaAsyncPinnedMemoryResource,
    FallbackMemoryResource as FallbackMemoryResource,
    HostVirtualMemoryResource as HostVirtualMemoryResource,
    RegisteredHostMemoryResource as RegisteredHostMemoryResource,
    Reservation as Reservation,
    SpecMemoryResource as SpecMemoryResource,
    RecorderResourceAdaptor as RecorderResourceAdaptor,
    TaggedResourceAdaptor as TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor as ThreadSafeResourceAdaptor,
    VirtualMemoryResource as VirtualMemoryResource,
)
