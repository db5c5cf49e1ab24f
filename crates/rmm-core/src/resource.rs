//! The two concepts of a memory resource, requests to it and introspection.

mod ask;
mod concept;
mod describe;
mod device_resource;
mod extendable;
mod has_resource;
mod introspect;
mod pointers;
mod request;
mod trim;
mod trim_stack;

pub(crate) use ask::{handle, itself, pointee};
pub use concept::{AnyResource, Erasable, Request, Resource, SyncResource};
pub(crate) use concept::{Erased, ErasedSync, Shared};
pub use describe::{Description, Metric};
pub use device_resource::DeviceResource;
pub use extendable::ExtendableResource;
pub use has_resource::HasResource;
pub use introspect::{Introspect, Stack};
pub use request::PropertySink;
pub use trim::TrimmableResource;
