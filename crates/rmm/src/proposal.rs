//! The kinds, capabilities and views of the CUDA `<memory_resource>` proposal, and the names of its
//! references, for code that is written against them.

pub use rmm_core::{
    AnyContext, DeviceAsyncResourceRef, DeviceResourceRef, HostAsyncResourceRef,
    HostDeviceAsyncResourceRef, HostDeviceResourceRef, HostResourceRef, MemoryCaps, MemoryResource,
    ResourceView, StreamContext,
};
