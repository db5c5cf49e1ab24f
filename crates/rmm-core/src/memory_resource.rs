//! The memory resource concept of the CUDA `<memory_resource>` proposal.

use std::alloc::Layout;

use crate::{CudaStream, DevicePtr, Error, StreamRef, SyncResource};

/// The context of memory that every stream may use at once, and every host thread if it is
/// host-accessible.
///
/// ```
/// use rmm_core::{AnyContext, MemoryResource};
/// use rmm_resources::CudaMemoryResource;
///
/// fn context(resource: &impl MemoryResource) -> AnyContext {
///     *resource.context()
/// }
/// assert_eq!(context(&CudaMemoryResource::new()), AnyContext);
/// ```
#[doc(alias = "cuda::any_context")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AnyContext;

/// The context of memory that one stream may use at once, and other streams once they are ordered
/// after it. [`StreamBound`](crate::StreamBound) resources have it.
///
/// ```
/// use rmm_core::{CudaStream, StreamContext};
///
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let context = StreamContext::from(stream.clone());
/// assert_eq!(context.stream(), stream);
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "cuda::stream_context")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamContext(CudaStream);

impl StreamContext {
    /// The stream.
    pub fn stream(&self) -> StreamRef<'_> {
        self.0.as_stream_ref()
    }
}

impl From<CudaStream> for StreamContext {
    fn from(stream: CudaStream) -> Self {
        Self(stream)
    }
}

/// A source of memory that may be used at once in a context of type `C`: the resource of the CUDA
/// `<memory_resource>` proposal, whose kind of memory is given by
/// [`HasMemoryKind`](crate::HasMemoryKind).
///
/// Every [`SyncResource`] is one for [any context](AnyContext), and
/// [`StreamBound`](crate::StreamBound) also is one for that of its stream. Programs can add
/// contexts. It is for code that is generic over contexts or written to the proposal; all other
/// code takes a [`SyncResource`] or a [`Resource`](crate::Resource).
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Error, HasMemoryKind, MemoryKind, MemoryResource};
/// use rmm_core::{StreamBound, StreamContext};
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// /// `cuda::memory_resource<memory_kind::device, Context>`
/// fn touch<C>(
///     resource: &(impl MemoryResource<C> + HasMemoryKind),
///     layout: Layout,
/// ) -> Result<MemoryKind, Error> {
///     let pointer = resource.allocate_in_context(layout)?;
///     // SAFETY: allocated above with this layout, and not used.
///     unsafe { resource.deallocate_in_context(pointer, layout) };
///     Ok(kind_of(resource))
/// }
///
/// fn kind_of<R: HasMemoryKind>(_: &R) -> MemoryKind {
///     R::KIND
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(1000, 256)?);
/// let pool = CudaAsyncMemoryResource::new()?;
/// assert_eq!(touch(&pool, layout)?, MemoryKind::Device); // for every stream
/// let bound = StreamBound::new(pool, stream);
/// assert_eq!(touch::<StreamContext>(&bound, layout)?, MemoryKind::Device); // in the order of one
/// # Ok(())
/// # }
/// ```
///
/// # Safety
/// Allocated memory may be used in the [context](Self::context) at once; the rest of the contract
/// of [`SyncResource`] holds too.
#[doc(alias = "cuda::memory_resource")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not allocate memory for the context `{C}`",
    note = "a `SyncResource` is for `AnyContext`; `StreamBound` makes a `Resource` one for `StreamContext`"
)]
pub unsafe trait MemoryResource<C = AnyContext> {
    /// The context in which the memory may be used at once.
    #[doc(alias = "get_context")]
    #[doc(alias = "do_get_context")]
    fn context(&self) -> &C;

    /// Allocates memory that may be used in the context once this returns.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if there is not enough memory;
    /// other kinds as the resource documents.
    #[doc(alias = "do_allocate")]
    fn allocate_in_context(&self, layout: Layout) -> Result<DevicePtr, Error>;

    /// Frees memory.
    ///
    /// # Safety
    /// The memory came from a resource equal to this one, in an equal context, with this layout,
    /// and is not freed already; every use of it has completed or, where the context is a stream's,
    /// is ordered before all work enqueued there from now on.
    #[doc(alias = "do_deallocate")]
    unsafe fn deallocate_in_context(&self, pointer: DevicePtr, layout: Layout);
}

// SAFETY: memory that every stream may use may be used in any context.
unsafe impl<R: SyncResource + ?Sized> MemoryResource for R {
    fn context(&self) -> &AnyContext {
        &AnyContext
    }

    fn allocate_in_context(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_sync(layout)
    }

    unsafe fn deallocate_in_context(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract: the context is no stream's, so every use has completed.
        unsafe { self.deallocate_sync(pointer, layout) }
    }
}

/// Forwards the stream context through pointers. `AnyContext` needs no such implementation, since a
/// pointer to a `SyncResource` is one.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        // SAFETY: every call goes to the resource behind the pointer, which keeps the contract.
        unsafe impl<R: MemoryResource<StreamContext> + ?Sized> MemoryResource<StreamContext> for $pointer {
            fn context(&self) -> &StreamContext {
                (**self).context()
            }

            fn allocate_in_context(&self, layout: Layout) -> Result<DevicePtr, Error> {
                (**self).allocate_in_context(layout)
            }

            unsafe fn deallocate_in_context(&self, pointer: DevicePtr, layout: Layout) {
                // SAFETY: the caller's contract is the same.
                unsafe { (**self).deallocate_in_context(pointer, layout) }
            }
        }
    )*};
}

forward!(&R, Box<R>, std::sync::Arc<R>);
