//! Implementation of the resource traits for pointers to a resource.
//!
//! `Arc<R>` is the `cuda::mr::shared_resource<R>` of C++: a handle to a resource that cannot be
//! cloned itself.

use std::sync::Arc;

use super::concept::{Resource, SynchronousResource};
use super::delegate::{delegate_resource, delegate_sync};

delegate_sync!([R: SynchronousResource + ?Sized] &R, |this| **this);
delegate_sync!([R: SynchronousResource + ?Sized] Box<R>, |this| **this);
delegate_sync!([R: SynchronousResource + ?Sized] Arc<R>, |this| **this);
delegate_resource!([R: Resource + ?Sized] &R, |this| **this);
delegate_resource!([R: Resource + ?Sized] Box<R>, |this| **this);
delegate_resource!([R: Resource + ?Sized] Arc<R>, |this| **this);
