//! Resources whose type is forgotten, but not what their memory can do.
//!
//! | | owned | borrowed |
//! |---|---|---|
//! | stream-ordered | [`AnyResource`] | [`ResourceRef`] |
//! | synchronous | [`AnySyncResource`] | [`SyncResourceRef`] |

mod aliases;
mod any;
mod any_sync;
mod delegate;
mod reference;
mod sync_reference;

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::{Resource, SyncResource};
use delegate::{delegate_resource, delegate_sync};

pub use aliases::{
    DeviceAsyncResourceRef, DeviceResourceRef, HostAsyncResourceRef, HostDeviceAsyncResourceRef,
    HostDeviceResourceRef, HostResourceRef,
};
pub use any::AnyResource;
pub use any_sync::AnySyncResource;
pub use reference::ResourceRef;
pub use sync_reference::SyncResourceRef;

/// Marks a value with a set of properties, and with no other that is a supertype of it: `fn(&'static T)` is one of
/// `for<'a> fn(&'a T)`, and types made with the two may be different properties.
type Exactly<S> = PhantomData<fn(S) -> S>;

/// What can still be asked after the type is erased.
trait ErasedSync: SyncResource + 'static {
    /// Whether `other` is a resource of this type and equal to this one.
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<R: SyncResource + PartialEq + 'static> ErasedSync for R {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<R>().is_some_and(|other| self == other)
    }
}

/// The same, in stream order.
trait Erased: Resource + ErasedSync {}

impl<R: Resource + PartialEq + 'static> Erased for R {}

/// What an [`AnyResource`] holds, whatever its properties: by it one is recognised behind pointers, so that it is never
/// wrapped twice and always compared by what is inside.
#[derive(Clone, Debug)]
struct Shared(Arc<dyn Erased>);

/// What an [`AnySyncResource`] holds, as [`Shared`].
#[derive(Clone, Debug)]
struct SharedSync(Arc<dyn ErasedSync>);

delegate_sync!([] Shared, |this| *this.0, pointee);
delegate_resource!([] Shared, |this| *this.0);
delegate_sync!([] SharedSync, |this| *this.0, pointee);

/// The holder of type `T` that `resource` is a pointer to, if it is.
fn behind_pointers<'a, T: 'static>(resource: &'a (dyn SyncResource + 'static)) -> Option<&'a T> {
    let mut next = resource.pointee();
    while let Some(inner) = next {
        if let Some(found) = inner.as_any().downcast_ref() {
            return Some(found);
        }
        next = inner.pointee();
    }
    None
}

/// The resource itself: what is held, if it is a pointer to something whose type is forgotten.
fn innermost<R: Resource + PartialEq + 'static>(resource: &R) -> &dyn Erased {
    behind_pointers::<Shared>(resource).map_or(resource, |shared| &*shared.0)
}

/// As [`innermost`], for the synchronous concept.
fn innermost_sync<R: SyncResource + PartialEq + 'static>(resource: &R) -> &dyn ErasedSync {
    if let Some(shared) = behind_pointers::<Shared>(resource) {
        return &*shared.0;
    }
    behind_pointers::<SharedSync>(resource).map_or(resource, |shared| &*shared.0)
}
