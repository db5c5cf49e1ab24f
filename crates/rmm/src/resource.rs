//! Concepts: memory resources, type-erased ones, and resources from a line of text.

pub use rmm_core::{
    AnyResource, AnySynchronousResource, DeviceResource, Effort, EffortScope, Resource,
    ResourceRef, StreamBound, Synchronized, SynchronousResource, SynchronousResourceRef, effort,
};
pub use rmm_spec::{RESOURCE_VARIABLE, ResourceSpec, first_resource_from_environment};
