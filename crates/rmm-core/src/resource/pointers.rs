//! Implementation of the resource traits for pointers to a resource.
//!
//! `Arc<R>` is the `cuda::mr::shared_resource<R>` of C++: a handle to a resource that cannot be
//! cloned itself.

use std::alloc::Layout;

use super::concept::{AnyResource, Resource, Structure, SyncResource, Synchronous};
use super::query::Query;
use crate::{DevicePtr, Error, StreamRef};

/// Implements both traits for pointers to a resource.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        // SAFETY: every call goes to the resource behind the pointer, which keeps the contract.
        unsafe impl<R: SyncResource + ?Sized> SyncResource for $pointer {
            fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
                (**self).do_allocate_sync(layout)
            }

            unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
                // SAFETY: the caller's contract is the same.
                unsafe { (**self).do_deallocate_sync(pointer, layout) }
            }

            fn name(&self) -> &'static str {
                (**self).name()
            }

            fn structure(&self) -> Structure<'_>
            where
                Self: 'static,
            {
                Structure::pointer_to(&**self)
            }

            fn provide<'a>(&'a self, query: &mut Query<'a>) {
                (**self).provide(query);
            }

            fn to_any_sync(&self) -> Option<AnyResource<(), Synchronous>>
            where
                Self: 'static,
            {
                (**self).to_any_sync()
            }
        }

        // SAFETY: every call goes to the resource behind the pointer, which keeps the contract.
        unsafe impl<R: Resource + ?Sized> Resource for $pointer {
            fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
                (**self).do_allocate(stream, layout)
            }

            unsafe fn do_deallocate(
                &self,
                stream: StreamRef<'_>,
                pointer: DevicePtr,
                layout: Layout,
            ) {
                // SAFETY: the caller's contract is the same.
                unsafe { (**self).do_deallocate(stream, pointer, layout) }
            }

            fn to_any(&self) -> Option<AnyResource<()>>
            where
                Self: 'static,
            {
                (**self).to_any()
            }
        }
    )*};
}

forward!(&R, Box<R>, std::sync::Arc<R>);
