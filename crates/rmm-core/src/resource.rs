//! The two concepts of a memory resource, its structure and introspection.

mod ask;
mod concept;
mod delegate;
mod describe;
mod device_resource;
mod extendable;
mod has_resource;
mod introspect;
mod pointers;
mod properties;
mod query;
mod structure;
mod trim;
mod trim_stack;

pub(crate) use ask::itself;
pub use concept::{
    AnyResource, Erasable, Order, Resource, StreamOrdered, Structure, SyncResource, Synchronous,
};
pub(crate) use concept::{Erased, ErasedSync, Erasure, Shared};
pub(crate) use delegate::{delegate_resource, delegate_sync};
pub use describe::{Description, Metric};
pub use device_resource::DeviceResource;
pub use extendable::ExtendableResource;
pub use has_resource::HasResource;
pub use introspect::{Introspect, Stack};
pub use properties::PropertySink;
pub use query::Query;
pub(crate) use structure::{behind_pointers, pointee};
pub use trim::TrimmableResource;
