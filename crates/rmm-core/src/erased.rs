//! Type-erased resources, which keep in their type the properties of their memory.
//!
//! | | owned | borrowed |
//! |---|---|---|
//! | stream-ordered | [`AnyResource`] | [`ResourceRef`] |
//! | synchronous | [`AnySyncResource`] | [`SyncResourceRef`] |

mod aliases;
mod any;
mod any_sync;
mod compare;
mod delegate;
mod held;
mod reference;
mod shared;
mod sync_reference;

pub use aliases::{
    DeviceAsyncResourceRef, DeviceResourceRef, HostAsyncResourceRef, HostDeviceAsyncResourceRef,
    HostDeviceResourceRef, HostResourceRef,
};
pub use any_sync::AnySyncResource;
pub use reference::ResourceRef;
pub use sync_reference::SyncResourceRef;
