//! The shared allocation that an owned erased resource holds.

use super::delegate::{delegate_resource, delegate_sync};
use crate::resource::{Erased, ErasedSync, Shared};

delegate_sync!([D: ErasedSync + ?Sized] Shared<D>, |this| *this.0);
delegate_resource!([D: Erased + ?Sized] Shared<D>, |this| *this.0);
