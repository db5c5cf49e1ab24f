//! The two concepts of a memory resource, its structure and introspection.

mod concept;
mod delegate;
mod describe;
mod device_resource;
mod has_resource;
mod introspect;
mod lookup;
mod pointers;
mod properties;
mod query;
mod structure;
mod trim;
mod trim_stack;

pub use concept::{
    AnyResource, AsDyn, ExtendableResource, Order, Resource, StreamOrdered, Structure, Synchronous,
    SynchronousResource,
};
pub(crate) use concept::{ComparableResource, ComparableSynchronousResource, SealedOrder, Shared};
pub(crate) use delegate::{delegate_resource, delegate_sync};
pub use describe::{Description, Metric};
pub use device_resource::DeviceResource;
pub use has_resource::HasResource;
pub use introspect::{Introspect, Stack};
pub(crate) use lookup::downcast_or_view;
pub use properties::PropertySink;
pub use query::Query;
pub(crate) use structure::{behind_pointers, pointee};
pub use trim::TrimmableResource;
