//! Type-erased resources, which keep in their type the properties of their memory.
//!
//! | | owned | borrowed |
//! |---|---|---|
//! | stream-ordered | [`AnyResource`](crate::AnyResource) | [`ResourceRef`] |
//! | synchronous | [`AnySynchronousResource`] | [`SynchronousResourceRef`] |
//!
//! Each column is one type, with the [order](crate::Order) of the calls as a parameter.

mod aliases;
mod any;
mod compare;
mod held;
mod order;
mod reference;

pub use aliases::{
    AnySynchronousResource, DeviceAsyncResourceRef, DeviceResourceRef, HostAsyncResourceRef,
    HostDeviceAsyncResourceRef, HostDeviceResourceRef, HostResourceRef,
};
pub use order::ErasableAs;
pub use reference::{ResourceRef, SynchronousResourceRef};
