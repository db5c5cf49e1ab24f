//! The heap allocation that the clones of an owned erased resource share.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use crate::resource::{Erased, ErasedSync, Shared, delegate_resource, delegate_sync};
use crate::{AnyResource, Resource, SyncResource};

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

impl<R: SyncResource + PartialEq> ErasedSync for Held<R> {
    fn erased(&self) -> &dyn Any
    where
        Self: 'static,
    {
        &self.resource
    }

    fn equals(&self, other: &dyn Any) -> bool
    where
        Self: 'static,
    {
        self.resource.equals(other)
    }

    fn equals_view_of(&self, other: &(dyn SyncResource + 'static)) -> bool
    where
        Self: 'static,
    {
        self.resource.equals_view_of(other)
    }
}

impl<R: Resource + PartialEq> Erased for Held<R> {}

delegate_sync!(
    [R: SyncResource + PartialEq] Held<R>, |this| this.resource,
    handle this.this.upgrade().map(|held| AnyResource::from_shared(Shared(held as _)))
);
delegate_resource!(
    [R: Resource + PartialEq] Held<R>, |this| this.resource,
    handle this.this.upgrade().map(|held| AnyResource::from_shared(Shared(held as _)))
);

delegate_sync!([D: ErasedSync + ?Sized] Shared<D>, |this| *this.0);
delegate_resource!([D: Erased + ?Sized] Shared<D>, |this| *this.0);
