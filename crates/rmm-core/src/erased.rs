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
mod held;
mod reference;
mod sync_reference;

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::resource::pointee;
use crate::{Error, Resource, SyncResource};
use delegate::{delegate_resource, delegate_sync};

pub use aliases::{
    DeviceAsyncResourceRef, DeviceResourceRef, HostAsyncResourceRef, HostDeviceAsyncResourceRef,
    HostDeviceResourceRef, HostResourceRef,
};
pub use any::AnyResource;
pub use any_sync::AnySyncResource;
pub(crate) use held::Held;
pub use reference::ResourceRef;
pub use sync_reference::SyncResourceRef;

/// Marks a value with a set of properties, and with no other that is a supertype of it:
/// `fn(&'static T)` is one of `for<'a> fn(&'a T)`, and types made with the two may be different
/// properties.
type Exactly<S> = PhantomData<fn(S) -> S>;

/// What can still be asked after the type is erased.
pub(crate) trait ErasedSync: SyncResource {
    /// The resource that was erased, by its own type.
    fn erased(&self) -> &dyn Any
    where
        Self: 'static;

    /// Whether `other` is of the type that was erased, and equal to this resource.
    fn equals(&self, other: &dyn Any) -> bool
    where
        Self: 'static;
}

impl<R: SyncResource + PartialEq> ErasedSync for R {
    fn erased(&self) -> &dyn Any
    where
        Self: 'static,
    {
        self
    }

    fn equals(&self, other: &dyn Any) -> bool
    where
        Self: 'static,
    {
        other.downcast_ref::<R>().is_some_and(|other| self == other)
    }
}

/// The same, in stream order.
trait Erased: Resource + ErasedSync {}

impl<R: Resource + PartialEq> Erased for R {}

/// What an [`AnyResource`] holds, whatever its properties: by it one is recognised behind pointers,
/// so that it is never wrapped twice and always compared by what is inside.
#[derive(Clone, Debug)]
struct Shared(Arc<dyn Erased>);

/// What an [`AnySyncResource`] holds, as [`Shared`].
#[derive(Clone, Debug)]
struct SharedSync(Arc<dyn ErasedSync>);

delegate_sync!([] Shared, |this| *this.0);
delegate_resource!([] Shared, |this| *this.0);
delegate_sync!([] SharedSync, |this| *this.0);

/// The holder of type `T` that `resource` is a pointer to, if it is.
fn behind_pointers<'a, T: 'static>(resource: &'a (dyn SyncResource + 'static)) -> Option<&'a T> {
    pointee(resource).and_then(downcast)
}

/// The value of type `T` that `resource` is, or is a pointer to.
fn downcast<'a, T: 'static>(resource: &'a (dyn SyncResource + 'static)) -> Option<&'a T> {
    let mut next = Some(resource);
    while let Some(inner) = next {
        if let Some(found) = inner.as_any().downcast_ref() {
            return Some(found);
        }
        next = pointee(inner);
    }
    None
}

/// The resource itself: what is held, if it is a pointer to something whose type is forgotten.
fn innermost<R: Resource + PartialEq + 'static>(resource: &R) -> &(dyn Erased + 'static) {
    behind_pointers::<Shared>(resource.as_dyn()).map_or(resource, |shared| &*shared.0)
}

/// As [`innermost`], for the synchronous concept.
fn innermost_sync<R: SyncResource + PartialEq + 'static>(
    resource: &R,
) -> &(dyn ErasedSync + 'static) {
    if let Some(shared) = behind_pointers::<Shared>(resource.as_dyn()) {
        return &*shared.0;
    }
    behind_pointers::<SharedSync>(resource.as_dyn()).map_or(resource, |shared| &*shared.0)
}

/// The resource behind all pointers.
fn behind_all_pointers<'a>(
    resource: &'a (dyn SyncResource + 'static),
) -> &'a (dyn SyncResource + 'static) {
    let mut resource = resource;
    while let Some(inner) = pointee(resource) {
        resource = inner;
    }
    resource
}

/// Whether memory from one may be freed by the other: they are one object, or of one type and
/// equal. Pointers count as what is behind them.
///
/// A pointer's own type does not know how to compare what is behind it, so the other side is asked
/// too. Two pointers of different types to two objects compare unequal; [`AnyResource::new`]
/// therefore takes in what is behind a pointer, if that is a handle.
fn is_same(one: &(dyn ErasedSync + 'static), other: &(dyn ErasedSync + 'static)) -> bool {
    let (first, second) = (behind_all_pointers(one.as_dyn()), behind_all_pointers(other.as_dyn()));
    is_one_object(first, second)
        || one.equals(second.as_any())
        || other.equals(first.as_any())
        || one.equals(other.erased())
}

/// Whether both are references to one object. Objects without bytes have no place of their own, and
/// are not.
fn is_one_object(one: &(dyn SyncResource + 'static), other: &(dyn SyncResource + 'static)) -> bool {
    size_of_val(one) > 0
        && std::ptr::addr_eq(one, other)
        && one.as_any().type_id() == other.as_any().type_id()
}

/// The error of a reference that cannot be made an owned resource.
fn not_a_handle(resource: &dyn SyncResource) -> Error {
    let message = format!(
        "a reference to `{}` cannot be made an owned resource, since its type is no handle: pass the resource itself, or borrow it \
         from an `AnyResource`",
        resource.name()
    );
    Error::invalid_argument("resource reference", message)
}
