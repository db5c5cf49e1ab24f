//! A resource bound to one stream.

use std::alloc::Layout;

use crate::siblings::MayBeWaitedFor;
use crate::{
    CudaStream, DevicePtr, Error, HasMemoryKind, HasProperty, HasPropertyValue, MemoryCaps,
    MemoryKind, MemoryResource, Property, PropertyWithValue, Query, Resource, StreamContext,
    StreamRef, Structure, SyncResource,
};

/// A resource that allocates on one stream, for code that does not use streams.
///
/// [`allocate`](Self::allocate) and [`deallocate`](Self::deallocate) are in the stream's order. As
/// a [`SyncResource`] it synchronizes with the stream after allocating, so that every stream may
/// use the memory.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, StreamBound};
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let bound = StreamBound::new(CudaAsyncMemoryResource::new()?, stream.clone());
/// let layout = Layout::from_size_align(1000, 256)?;
/// let pointer = bound.allocate(layout)?; // on `stream`
/// // SAFETY: allocated above with this layout, and not used.
/// unsafe { bound.deallocate(pointer, layout) };
/// assert_eq!(bound.stream(), stream);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuda::stream_bound_memory_resource")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamBound<R> {
    resource: R,
    context: StreamContext,
}

impl<R: Resource> StreamBound<R> {
    /// Binds the resource to the stream.
    pub fn new(resource: R, stream: CudaStream) -> Self {
        Self { resource, context: stream.into() }
    }

    /// The stream.
    pub fn stream(&self) -> StreamRef<'_> {
        self.context.stream()
    }

    /// The resource.
    pub fn upstream(&self) -> &R {
        &self.resource
    }

    /// Allocates memory for use by work enqueued on the stream from now on.
    ///
    /// # Errors
    /// As [`Resource::allocate`].
    pub fn allocate(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.resource.allocate(self.stream(), layout)
    }

    /// Frees memory once the work enqueued on the stream so far has completed.
    ///
    /// # Safety
    /// As [`Resource::deallocate`] on the stream.
    pub unsafe fn deallocate(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.resource.deallocate(self.stream(), pointer, layout) }
    }
}

// SAFETY: the resource keeps its contract in the stream's order, and synchronizing with the stream
// makes the memory usable on every other.
unsafe impl<R: Resource> SyncResource for StreamBound<R> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let pointer = self.allocate(layout)?;
        if let Err(error) = self.stream().synchronize() {
            // SAFETY: allocated just now with this layout on this stream, and not used.
            unsafe { self.deallocate(pointer, layout) };
            return Err(error.with_layout(layout));
        }
        Ok(pointer)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract: all uses have completed, so they are ordered before
        // anything.
        unsafe { self.deallocate(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "stream-bound"
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::over(&self.resource)
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties_from(&self.resource).value(|| MayBeWaitedFor);
    }
}

// SAFETY: the resource keeps its contract in the order of the stream, which is the context.
unsafe impl<R: Resource> MemoryResource<StreamContext> for StreamBound<R> {
    fn context(&self) -> &StreamContext {
        &self.context
    }

    fn allocate_in_context(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate(layout)
    }

    unsafe fn deallocate_in_context(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.deallocate(pointer, layout) }
    }
}

// SAFETY: the memory is the upstream's.
unsafe impl<P: Property, R: HasProperty<P>> HasProperty<P> for StreamBound<R> {}

impl<P: PropertyWithValue, R: HasPropertyValue<P>> HasPropertyValue<P> for StreamBound<R> {
    fn property_value(&self) -> P::Value {
        self.resource.property_value()
    }
}

// SAFETY: the memory is the upstream's.
unsafe impl<R: HasMemoryKind> HasMemoryKind for StreamBound<R> {
    const KIND: MemoryKind = R::KIND;
    const CAPS: MemoryCaps = R::CAPS;
}
