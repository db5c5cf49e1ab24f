//! A resource in the allocation that owned erased resources share.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use super::{
    AnyResource, AnySyncResource, Erased, ErasedSync, Shared, SharedSync, delegate_resource,
    delegate_sync,
};
use crate::{Resource, SyncResource};

/// The resource, and the way from a reference to it back to another owner: so that each
/// [`ResourceRef`](crate::ResourceRef) of an [`AnyResource`] can be made an owned resource again,
/// whatever the resource's type.
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

impl<R: SyncResource + PartialEq + 'static> ErasedSync for Held<R> {
    fn erased(&self) -> &dyn Any {
        &self.resource
    }

    fn equals(&self, other: &dyn Any) -> bool {
        self.resource.equals(other)
    }
}

impl<R: Resource + PartialEq + 'static> Erased for Held<R> {}

delegate_sync!(
    [R: SyncResource + PartialEq + 'static] Held<R>, |this| this.resource, pointee,
    handle this.this.upgrade().map(|held| AnySyncResource::from_shared(SharedSync(held)))
);
delegate_resource!(
    [R: Resource + PartialEq + 'static] Held<R>, |this| this.resource,
    handle this.this.upgrade().map(|held| AnyResource::from_shared(Shared(held)))
);
