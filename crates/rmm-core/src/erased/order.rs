//! The two orders of an erased resource's calls, and what differs between them.

use super::compare::downcast;
use super::held::Held;
use crate::resource::{
    ComparableResource, ComparableSynchronousResource, Order, SealedOrder, Shared, pointee,
};
use crate::{Resource, StreamOrdered, Synchronous, SynchronousResource};

type DynResource = dyn ComparableResource;
type DynSynchronousResource = dyn ComparableSynchronousResource;

impl Order for StreamOrdered {}
impl Order for Synchronous {}

impl SealedOrder for StreamOrdered {
    type Dyn = DynResource;

    fn synchronous(resource: &DynResource) -> &DynSynchronousResource {
        resource
    }

    fn owned(resource: &DynResource) -> Option<Shared<DynResource>> {
        resource.to_any().map(|handle| handle.shared)
    }
}

impl SealedOrder for Synchronous {
    type Dyn = DynSynchronousResource;

    fn synchronous(resource: &DynSynchronousResource) -> &DynSynchronousResource {
        resource
    }

    fn owned(resource: &DynSynchronousResource) -> Option<Shared<DynSynchronousResource>> {
        resource.to_any_sync().map(|handle| handle.shared)
    }
}

/// A resource that can be type-erased with calls in the order `O`: every [`Resource`], or
/// [`SynchronousResource`] for [`Synchronous`], that is comparable and borrows nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be type-erased as a resource whose calls are `{O}`",
    note = "it has to implement `Resource` (`SynchronousResource` for `Synchronous`) and `PartialEq`, and borrow nothing"
)]
pub trait ErasableAs<O: Order>: SealedErase<O> + SynchronousResource + PartialEq + 'static {}

impl<R: Resource + PartialEq + 'static> ErasableAs<StreamOrdered> for R {}
impl<R: SynchronousResource + PartialEq + 'static> ErasableAs<Synchronous> for R {}

/// What erases a resource's type. It seals [`ErasableAs`]: an erased resource has the properties of
/// the type that was erased.
#[expect(unnameable_types, reason = "it seals `ErasableAs`")]
pub trait SealedErase<O: Order> {
    /// Moves the resource to a shared allocation. If it is a pointer to a handle, a clone of the
    /// handle.
    fn into_shared(self) -> Shared<O::Dyn>;

    /// The innermost resource: if this one points to a type-erased one, what that holds.
    fn innermost(&self) -> &O::Dyn;
}

impl<R: Resource + PartialEq + 'static> SealedErase<StreamOrdered> for R {
    fn into_shared(self) -> Shared<DynResource> {
        // A resource that is not a pointer is moved, not cloned.
        let behind = if pointee(self.as_dyn()).is_some() { self.to_any() } else { None };
        behind.map_or_else(|| Shared(Held::new(self) as _), |handle| handle.shared)
    }

    fn innermost(&self) -> &DynResource {
        let shared = pointee(self.as_dyn()).and_then(downcast::<Shared<DynResource>>);
        shared.map_or(self, |shared| &*shared.0)
    }
}

impl<R: SynchronousResource + PartialEq + 'static> SealedErase<Synchronous> for R {
    fn into_shared(self) -> Shared<DynSynchronousResource> {
        let behind = if pointee(self.as_dyn()).is_some() { self.to_any_sync() } else { None };
        behind.map_or_else(|| Shared(Held::new(self) as _), |handle| handle.shared)
    }

    fn innermost(&self) -> &DynSynchronousResource {
        let Some(inner) = pointee(self.as_dyn()) else { return self };
        if let Some(ordered) = downcast::<Shared<DynResource>>(inner) {
            return &*ordered.0;
        }
        downcast::<Shared<DynSynchronousResource>>(inner).map_or(self, |shared| &*shared.0)
    }
}
