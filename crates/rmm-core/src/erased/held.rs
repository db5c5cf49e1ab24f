//! A resource in the allocation that owned erased resources share.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use super::{AnyResource, Erased, ErasedSync, Shared, delegate_resource, delegate_sync};
use crate::{Resource, SyncResource};

/// The resource, and the way from a reference to it back to another owner: so that each
/// [`ResourceRef`](crate::ResourceRef) of an [`AnyResource`] can be made an owned resource again,
/// whatever the resource's type.
pub(crate) struct Held<R> {
    resource: R,
    this: Weak<Self>,
}

impl<R> Held<R> {
    pub(crate) fn new(resource: R) -> Arc<Self> {
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
}

impl<R: Resource + PartialEq> Erased for Held<R> {}

delegate_sync!(
    [R: SyncResource + PartialEq] Held<R>, |this| this.resource, handle this.this.upgrade()
);
delegate_resource!(
    [R: Resource + PartialEq] Held<R>, |this| this.resource,
    handle this.this.upgrade().map(|held| AnyResource::from_shared(Shared(held)))
);
