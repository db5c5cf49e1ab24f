//! The shared allocations that owned erased resources hold.

use std::sync::Arc;

use super::delegate::{delegate_resource, delegate_sync};
use crate::resource::{ErasedSync, Shared};

/// What an [`AnySyncResource`] holds. See [`Shared`].
#[derive(Clone, Debug)]
pub(super) struct SharedSync(pub(super) Arc<dyn ErasedSync>);

delegate_sync!([] Shared, |this| *this.0);
delegate_resource!([] Shared, |this| *this.0);
delegate_sync!([] SharedSync, |this| *this.0);
