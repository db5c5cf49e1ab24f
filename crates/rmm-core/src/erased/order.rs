//! The two orders of an erased resource's calls, and what differs between them.

use super::compare::downcast;
use super::held::Held;
use crate::resource::{Erased, ErasedSync, Erasure, Order, Shared, pointee};
use crate::{Resource, StreamOrdered, SyncResource, Synchronous};

type DynOrdered = dyn Erased;
type DynSync = dyn ErasedSync;

impl Order for StreamOrdered {}
impl Order for Synchronous {}

impl Erasure for StreamOrdered {
    type Erased = DynOrdered;

    fn synchronous(resource: &DynOrdered) -> &DynSync {
        resource
    }

    fn owned(resource: &DynOrdered) -> Option<Shared<DynOrdered>> {
        resource.to_any().map(|handle| handle.shared)
    }
}

impl Erasure for Synchronous {
    type Erased = DynSync;

    fn synchronous(resource: &DynSync) -> &DynSync {
        resource
    }

    fn owned(resource: &DynSync) -> Option<Shared<DynSync>> {
        resource.to_any_sync().map(|handle| handle.shared)
    }
}

/// A resource that can be type-erased with calls in the order `O`: every [`Resource`], or
/// [`SyncResource`] for [`Synchronous`], that is comparable and borrows nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be type-erased as a resource whose calls are `{O}`",
    note = "it has to implement `Resource` (`SyncResource` for `Synchronous`) and `PartialEq`, and borrow nothing"
)]
pub trait InOrder<O: Order>: Erase<O> + SyncResource + PartialEq + 'static {}

impl<R: Resource + PartialEq + 'static> InOrder<StreamOrdered> for R {}
impl<R: SyncResource + PartialEq + 'static> InOrder<Synchronous> for R {}

/// Erasure of the type. It is sealed: an erased resource has the properties of the
/// type that was erased.
#[expect(unnameable_types, reason = "it seals `InOrder`")]
pub trait Erase<O: Order> {
    /// Moves the resource to a shared allocation. If it is a pointer to a handle, a clone of the
    /// handle.
    fn into_shared(self) -> Shared<O::Erased>;

    /// The innermost resource: if this one points to a type-erased one, what that holds.
    fn innermost(&self) -> &O::Erased;
}

impl<R: Resource + PartialEq + 'static> Erase<StreamOrdered> for R {
    fn into_shared(self) -> Shared<DynOrdered> {
        // A resource that is not a pointer is moved, not cloned.
        let behind = if pointee(self.as_dyn()).is_some() { self.to_any() } else { None };
        behind.map_or_else(|| Shared(Held::new(self) as _), |handle| handle.shared)
    }

    fn innermost(&self) -> &DynOrdered {
        let shared = pointee(self.as_dyn()).and_then(downcast::<Shared<DynOrdered>>);
        shared.map_or(self, |shared| &*shared.0)
    }
}

impl<R: SyncResource + PartialEq + 'static> Erase<Synchronous> for R {
    fn into_shared(self) -> Shared<DynSync> {
        let behind = if pointee(self.as_dyn()).is_some() { self.to_any_sync() } else { None };
        behind.map_or_else(|| Shared(Held::new(self) as _), |handle| handle.shared)
    }

    fn innermost(&self) -> &DynSync {
        let Some(inner) = pointee(self.as_dyn()) else { return self };
        if let Some(ordered) = downcast::<Shared<DynOrdered>>(inner) {
            return &*ordered.0;
        }
        downcast::<Shared<DynSync>>(inner).map_or(self, |shared| &*shared.0)
    }
}
