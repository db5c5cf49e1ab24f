//! The two concepts of a memory resource.

use std::alloc::Layout;
use std::fmt::Debug;

use crate::{DeviceAccessible, DevicePtr, Error, HasProperty, StreamRef};

/// A source of memory that is usable on every stream when a call returns.
///
/// # Safety
/// An implementation keeps the contract in the [crate's documentation](crate#stream-order): memory that it hands out is not
/// handed out again, nor given back, before it is freed; it lies in one piece, aligned as asked for.
#[doc(alias = "cuda::mr::synchronous_resource")]
pub unsafe trait SyncResource: Debug + Send + Sync {
    /// Allocates memory that every stream may use at return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if it can not be had; other kinds as the resource says.
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error>;

    /// Gives memory back. Errors of the driver can not be reported here; a resource says what it does about them.
    ///
    /// # Safety
    /// The memory came from a resource equal to this one, with this layout, and is not freed already; every use of it has
    /// completed.
    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout);

    /// The resource's name, for messages and logs: short, lowercase, such as `pool`.
    fn name(&self) -> &'static str;
}

/// A source of memory in stream order.
///
/// # Safety
/// As [`SyncResource`], in stream order: memory handed out on a stream is free for use by work enqueued on it from now on, so
/// whatever used it before is ordered before that.
#[doc(alias = "cuda::mr::resource")]
#[doc(alias = "rmm::mr::device_memory_resource")]
pub unsafe trait Resource: SyncResource {
    /// Allocates memory for use by work enqueued on `stream` from now on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if it can not be had; other kinds as the resource says.
    fn allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error>;

    /// Gives memory back once the work enqueued on `stream` so far is done. Does not wait for it, where it can be helped.
    ///
    /// # Safety
    /// The memory came from a resource equal to this one, with this layout, and is not freed already; every use of it is
    /// ordered before whatever is enqueued on `stream` from now on.
    unsafe fn deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout);
}

/// A resource that containers can keep a handle to: its memory is the device's, and a clone of it is the same resource.
///
/// Implemented for every type that can be one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no resource for device memory that containers can keep",
    note = "it has to implement `Resource`, `HasProperty<DeviceAccessible>`, `Clone` and `PartialEq`, and borrow nothing"
)]
pub trait DeviceResource:
    Resource + HasProperty<DeviceAccessible> + Clone + PartialEq + 'static
{
}

impl<R: Resource + HasProperty<DeviceAccessible> + Clone + PartialEq + 'static> DeviceResource
    for R
{
}

/// Implements both traits for pointers to a resource.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        // SAFETY: every call goes to the resource behind the pointer, which keeps the contract.
        unsafe impl<R: SyncResource + ?Sized> SyncResource for $pointer {
            fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
                (**self).allocate_sync(layout)
            }

            unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
                // SAFETY: the caller's contract is the same.
                unsafe { (**self).deallocate_sync(pointer, layout) }
            }

            fn name(&self) -> &'static str {
                (**self).name()
            }
        }

        // SAFETY: as above.
        unsafe impl<R: Resource + ?Sized> Resource for $pointer {
            fn allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
                (**self).allocate(stream, layout)
            }

            unsafe fn deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
                // SAFETY: the caller's contract is the same.
                unsafe { (**self).deallocate(stream, pointer, layout) }
            }
        }
    )*};
}

forward!(&R, Box<R>, std::sync::Arc<R>);
