//! Concepts: memory resources, type-erased ones, and resources from a line of text.

pub use rmm_core::{
    AnyResource, AnySyncResource, DeviceResource, Resource, ResourceRef, StreamBound, SyncResource,
    SyncResourceRef, Synchronized,
};
pub use rmm_spec::{RESOURCE_VARIABLE, ResourceSpec};
