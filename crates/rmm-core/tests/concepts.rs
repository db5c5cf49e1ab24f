//! Properties, equality and types of resources after type erasure.

#[path = "concepts/adapters.rs"]
mod adapters;
#[path = "concepts/adaptor_macro.rs"]
mod adaptor_macro;
#[path = "concepts/equality.rs"]
mod equality;
#[path = "concepts/heap.rs"]
mod heap;
#[path = "concepts/messages.rs"]
mod messages;
#[path = "concepts/properties.rs"]
mod properties;
#[path = "concepts/queries.rs"]
mod queries;
#[path = "concepts/views.rs"]
mod views;
#[path = "concepts/zero_bytes.rs"]
mod zero_bytes;
