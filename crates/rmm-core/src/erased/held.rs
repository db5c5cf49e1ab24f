//! The heap allocation that the clones of an owned erased resource share.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::resource::{
    ComparableResource, ComparableSynchronousResource, Shared, delegate_resource, delegate_sync,
};
use crate::{AnyResource, Resource, SynchronousResource};

/// A resource and a weak pointer to its own allocation, from which a
/// [`ResourceRef`](crate::ResourceRef) of an [`AnyResource`] gets an owned resource again, whatever
/// the resource's type.
pub(super) struct Held<R> {
    resource: R,
    this: Weak<Self>,
}

impl<R> Held<R> {
    pub(super) fn new(resource: R) -> Arc<Self> {
        Arc::new_cyclic(|this| Self { resource, this: this.clone() })
    }
}

impl<R: fmt::Debug> fmt::Debug for Held<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.resource.fmt(f)
    }
}

impl<R: SynchronousResource + PartialEq> ComparableSynchronousResource for Held<R> {
    fn inner(&self) -> &(dyn SynchronousResource + 'static)
    where
        Self: 'static,
    {
        &self.resource
    }

    fn equals(&self, other: &(dyn SynchronousResource + 'static)) -> bool
    where
        Self: 'static,
    {
        self.resource.equals(other)
    }
}

impl<R: Resource + PartialEq> ComparableResource for Held<R> {}

delegate_sync!(
    [R: SynchronousResource + PartialEq] Held<R>, |this| this.resource,
    handle this.this.upgrade().map(|held| {
        // SAFETY: the set is empty.
        unsafe { AnyResource::from_shared(Shared(held as _)) }
    })
);
delegate_resource!(
    [R: Resource + PartialEq] Held<R>, |this| this.resource,
    handle this.this.upgrade().map(|held| {
        // SAFETY: the set is empty.
        unsafe { AnyResource::from_shared(Shared(held as _)) }
    })
);

delegate_sync!([D: ComparableSynchronousResource + ?Sized] Shared<D>, |this| *this.0);
delegate_resource!([D: ComparableResource + ?Sized] Shared<D>, |this| *this.0);
