//! The resources of the CUDA `<memory_resource>` proposal, as views of the traits of this crate:
//! memory for a context, a resource bound to a stream, and a view by capabilities. The kinds of
//! memory and the capabilities are in `memory_kind.rs`, since every resource has them.

use std::alloc::Layout;

use crate::resource::delegate_sync;
use crate::{
    CudaStream, DevicePtr, Error, HasMemoryKind, Introspect, MemoryCaps, MemoryKind, Resource,
    StreamRef, SynchronousResource,
};

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
/// after it. [`StreamBound`] resources have it.
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
/// [`HasMemoryKind`].
///
/// Every [`SynchronousResource`] is one for [any context](AnyContext), and [`StreamBound`] one for
/// that of its stream. Programs can add contexts. It is for code that is generic over contexts or
/// written to the proposal; all other code takes a [`SynchronousResource`] or a [`Resource`].
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
/// assert_eq!(touch(&bound, layout)?, MemoryKind::Device); // in the order of one
/// # Ok(())
/// # }
/// ```
///
/// # Safety
/// Allocated memory may be used in the [context](Self::context) at once; the rest of the contract
/// of [`SynchronousResource`] holds too.
#[doc(alias = "cuda::memory_resource")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not allocate memory for the context `{C}`",
    note = "a `SynchronousResource` is for `AnyContext`; `StreamBound` makes a `Resource` one for `StreamContext`"
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
unsafe impl<R: SynchronousResource + ?Sized> MemoryResource for R {
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

/// A resource that allocates on one stream, for code that does not use streams.
///
/// Memory for every stream is the [upstream](Self::upstream)'s to allocate, by
/// [`allocate_sync`](SynchronousResource::allocate_sync).
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
#[doc(alias = "rmm::mr::stream_allocator_adaptor")]
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
    /// The errors of [`Resource::allocate`].
    pub fn allocate(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.resource.allocate(self.stream(), layout)
    }

    /// Frees memory once the work enqueued on the stream so far has completed.
    ///
    /// # Safety
    /// The contract of [`Resource::deallocate`] on the stream.
    pub unsafe fn deallocate(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.resource.deallocate(self.stream(), pointer, layout) }
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
unsafe impl<R: HasMemoryKind> HasMemoryKind for StreamBound<R> {
    const KIND: MemoryKind = R::KIND;
}

/// A borrowed resource whose memory has the capabilities `CAPS`, which are bits of [`MemoryCaps`]:
/// the view of the CUDA `<memory_resource>` proposal.
///
/// Unlike the property set of [`SynchronousResourceRef`](crate::SynchronousResourceRef), `CAPS` is
/// a number, so that libraries can compute with it. A view converts to one with fewer capabilities,
/// checked at compile time:
///
/// ```
/// use rmm_core::{MemoryCaps, ResourceView};
/// use rmm_resources::CudaMemoryResource;
///
/// const DEVICE: u32 = MemoryCaps::DEVICE_ACCESSIBLE.bits();
/// const FIXED: u32 = DEVICE | MemoryCaps::RESIDENT.bits();
///
/// let resource = CudaMemoryResource::new();
/// let fixed = ResourceView::<FIXED>::new(&resource);
/// let device: ResourceView<'_, DEVICE> = fixed.narrow();
/// assert_eq!(device.caps(), MemoryCaps::DEVICE_ACCESSIBLE);
/// ```
///
/// The opposite does not compile, nor does a view with a capability that the resource's memory
/// lacks:
///
/// ```compile_fail,E0080
/// # use rmm_core::{MemoryCaps, ResourceView};
/// # use rmm_resources::CudaMemoryResource;
/// let resource = CudaMemoryResource::new();
/// let view = ResourceView::<{ MemoryCaps::HOST_ACCESSIBLE.bits() }>::new(&resource);
/// ```
#[doc(alias = "cuda::resource_view")]
#[derive(Clone, Copy, Debug)]
pub struct ResourceView<'a, const CAPS: u32> {
    /// # Invariant
    /// Its memory has the capabilities `CAPS`.
    resource: &'a dyn SynchronousResource,
}

impl<'a, const CAPS: u32> ResourceView<'a, CAPS> {
    /// Views a resource. A capability that its kind of memory lacks is refused at compile time.
    pub fn new<R: SynchronousResource + HasMemoryKind>(resource: &'a R) -> Self {
        const {
            assert!(
                R::KIND.caps().bits() & CAPS == CAPS,
                "the resource's kind of memory lacks a capability of the view"
            );
        }
        Self { resource }
    }

    /// Views a resource whose type does not determine its capabilities, if it has `CAPS` at run
    /// time: by its [kind](MemoryKind), or, if it has none, by its
    /// [accessibility](Introspect::accessibility).
    ///
    /// ```
    /// use rmm_core::{AnyResource, MemoryCaps, ResourceView};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// let resource: AnyResource = AnyResource::new(CudaMemoryResource::new());
    /// assert!(ResourceView::<{ MemoryCaps::RESIDENT.bits() }>::try_new(&resource).is_some());
    /// const HOST: u32 = MemoryCaps::HOST_ACCESSIBLE.bits();
    /// assert!(ResourceView::<HOST>::try_new(&resource).is_none());
    /// ```
    pub fn try_new(resource: &'a dyn SynchronousResource) -> Option<Self> {
        let kind = resource.try_property::<MemoryKind>();
        let caps = kind.map_or_else(|| resource.accessibility(), MemoryKind::caps);
        (caps.bits() & CAPS == CAPS).then_some(Self { resource })
    }

    /// A view with fewer capabilities. More are refused at compile time:
    ///
    /// ```compile_fail,E0080
    /// # use rmm_core::{MemoryCaps, ResourceView};
    /// # use rmm_resources::CudaMemoryResource;
    /// const DEVICE: u32 = MemoryCaps::DEVICE_ACCESSIBLE.bits();
    /// # let resource = CudaMemoryResource::new();
    /// let view = ResourceView::<DEVICE>::new(&resource);
    /// let more = view.narrow::<{ DEVICE | MemoryCaps::HOST_ACCESSIBLE.bits() }>();
    /// ```
    #[must_use]
    pub fn narrow<const LESS: u32>(self) -> ResourceView<'a, LESS> {
        const {
            assert!(LESS & CAPS == LESS, "a view cannot promise more than the one it is made from");
        }
        ResourceView { resource: self.resource }
    }

    /// The capabilities.
    pub const fn caps(self) -> MemoryCaps {
        MemoryCaps::from_bits_retain(CAPS)
    }
}

delegate_sync!([const CAPS: u32] ResourceView<'_, CAPS>, |this| *this.resource);
