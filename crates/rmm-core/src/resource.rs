//! The two concepts of a memory resource.

mod describe;
mod extendable;
mod has_resource;
mod introspect;
mod pointers;
mod request;

use std::alloc::Layout;
use std::fmt::Debug;

use crate::{AnyResource, DeviceAccessible, DevicePtr, Error, HasProperty, StreamRef};

pub use describe::{Description, Metric};
pub use extendable::ExtendableResource;
pub use has_resource::HasResource;
pub use introspect::{Erasable, Introspect, Stack};
pub use request::{PropertySink, Request};
pub(crate) use request::{handle, pointee};

/// A source of memory that is usable on every stream when a call returns.
///
/// To use one, call [`allocate_sync`](Self::allocate_sync). To write one, implement the three
/// functions without a body, and [`provide`](Self::provide) for what the resource can say of itself:
///
/// ```
/// use std::alloc::Layout;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use rmm_core::{DevicePtr, Error, Introspect, MemoryKind, Request, SyncResource};
/// use rmm_resources::CudaMemoryResource;
///
/// /// Counts what is asked of another resource.
/// #[derive(Debug)]
/// struct Counting<R> {
///     upstream: R,
///     asked: AtomicUsize,
/// }
///
/// // SAFETY: every call goes to the upstream, which keeps the contract.
/// unsafe impl<R: SyncResource> SyncResource for Counting<R> {
///     fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
///         self.asked.fetch_add(1, Ordering::Relaxed);
///         self.upstream.allocate_sync(layout)
///     }
///
///     unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
///         // SAFETY: the caller's contract is the same.
///         unsafe { self.upstream.deallocate_sync(pointer, layout) }
///     }
///
///     fn name(&self) -> &'static str {
///         "counting"
///     }
///
///     fn provide<'a>(&'a self, request: &mut Request<'a>) {
///         request.upstream(&self.upstream).properties_from(&self.upstream);
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let counting = Counting { upstream: CudaMemoryResource::new(), asked: AtomicUsize::new(0) };
/// let layout = Layout::from_size_align(1000, 256)?;
/// let pointer = counting.allocate_sync(layout)?;
/// // SAFETY: allocated above with this layout, and not used.
/// unsafe { counting.deallocate_sync(pointer, layout) };
/// assert_eq!(counting.asked.load(Ordering::Relaxed), 1);
/// assert_eq!(counting.try_property::<MemoryKind>(), Some(MemoryKind::Device));
/// # Ok(())
/// # }
/// ```
///
/// A type that is a handle, as most are, also provides one ([`Request::handle`]), so that a
/// reference to it can be made an owned resource again.
///
/// `&R`, `Box<R>` and `Arc<R>` are the resource `R`; `Arc` makes a handle that can be cloned of one
/// that cannot.
///
/// # Safety
/// An implementation keeps the contract in the [crate's documentation](crate#stream-order): memory
/// that it hands out is not handed out again, nor given back, before it is freed; it lies in one
/// piece, aligned as asked for. If the type implements [`PartialEq`], of two
/// that are equal each frees the other's memory. What [`provide`](Self::provide) answers is true:
///
/// 1. The properties hold for all memory that the resource hands out, as [`HasProperty`] demands.
/// 2. The [pointee](Request::pointee) is always the same resource, and hands out this one's memory:
///    it is called in this one's place. So is the [handle](Request::handle), here and in
///    [`Resource::to_any`], which has all properties of the resource.
/// 3. A type that borrows nothing (`Self: 'static`) provides only resources of types that borrow
///    nothing: what it has a field of, or is made of.
#[doc(alias = "cuda::mr::synchronous_resource")]
#[doc(alias = "cuda::mr::shared_resource")]
#[diagnostic::on_unimplemented(message = "`{Self}` is no memory resource")]
pub unsafe trait SyncResource: Debug + Send + Sync + Erasable {
    /// Allocates memory that every stream may use at return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if it cannot be had; other kinds
    /// as the resource says.
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error>;

    /// Gives memory back. Errors of the driver cannot be reported here; a resource says what it
    /// does about them.
    ///
    /// # Safety
    /// The memory came from a resource equal to this one, with this layout, and is not freed
    /// already; every use of it has completed.
    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout);

    /// The resource's name, for messages and logs: short, lowercase, such as `pool`.
    fn name(&self) -> &'static str;

    /// Answers a typed request: the properties of the memory, the upstream, sizes and counters, an
    /// owned handle. Name everything that the resource has; the [`Request`] keeps what it asks for.
    ///
    /// [`Introspect`](crate::Introspect) asks. An adaptor provides its upstream and the upstream's
    /// properties.
    fn provide<'a>(&'a self, _request: &mut Request<'a>) {}
}

/// A source of memory in stream order.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let (stream, resource) = (CudaStream::new()?, CudaAsyncMemoryResource::new()?);
/// let layout = Layout::from_size_align(1000, 256)?;
/// let pointer = resource.allocate(&stream, layout)?;
/// // ... enqueue work on `stream` that uses the memory ...
/// // SAFETY: allocated above with this layout; whatever uses it is on the stream already.
/// unsafe { resource.deallocate(&stream, pointer, layout) }; // and need not be done yet
/// # Ok(())
/// # }
/// ```
///
/// # Safety
/// As [`SyncResource`], in stream order: memory handed out on a stream is free for use by work
/// enqueued on it from now on, so whatever used it before is ordered before that.
#[doc(alias = "cuda::mr::resource")]
#[doc(alias = "cuda::stream_ordered_memory_resource")]
#[doc(alias = "rmm::mr::device_memory_resource")]
pub unsafe trait Resource: SyncResource {
    /// Allocates memory for use by work enqueued on `stream` from now on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if it cannot be had; other kinds
    /// as the resource says.
    #[doc(alias = "rmm::mr::device_memory_resource::do_allocate")]
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error>;

    /// Gives memory back once the work enqueued on `stream` so far is done. Does not wait for it,
    /// where it can be helped.
    ///
    /// # Safety
    /// The memory came from a resource equal to this one, with this layout, and is not freed
    /// already; every use of it is ordered before whatever is enqueued on `stream` from now on.
    #[doc(alias = "rmm::mr::device_memory_resource::do_deallocate")]
    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout);

    /// Allocates memory for use by work enqueued on `stream` from now on: `&CudaStream` or
    /// [`StreamRef`]. Calls [`do_allocate`](Self::do_allocate), and is not for overriding.
    ///
    /// A trait object has no generic methods: call [`do_allocate`](Self::do_allocate) on a
    /// `dyn Resource`, or use [`AnyResource`] and [`ResourceRef`](crate::ResourceRef) in its place.
    ///
    /// # Errors
    /// As [`do_allocate`](Self::do_allocate).
    #[inline]
    fn allocate<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error>
    where
        Self: Sized,
    {
        self.do_allocate(stream.into(), layout)
    }

    /// Frees memory once the work enqueued on `stream` so far has completed, without waiting for it
    /// where possible. Calls [`do_deallocate`](Self::do_deallocate), and is not for overriding.
    ///
    /// # Safety
    /// As [`do_deallocate`](Self::do_deallocate).
    #[inline]
    unsafe fn deallocate<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        pointer: DevicePtr,
        layout: Layout,
    ) where
        Self: Sized,
    {
        // SAFETY: the caller's contract is the same.
        unsafe { self.do_deallocate(stream.into(), pointer, layout) }
    }

    /// An owned handle to this resource, if its type is a handle: a clone is the same resource, and
    /// equal to it. Such a type implements it by `Some(AnyResource::of(self))`, and
    /// [provides](Request::handle) its handle without stream order too.
    ///
    /// [`ResourceRef::try_to_owned`](crate::ResourceRef::try_to_owned) asks, and so does
    /// [`AnyResource::new`] of a pointer, to take in what is behind it.
    ///
    /// ```
    /// use rmm_core::{AnyResource, Resource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// let resource = CudaMemoryResource::new();
    /// let handle = resource.to_any().expect("it is a handle");
    /// assert!(handle.is_equal(&resource));
    /// assert_eq!(AnyResource::<()>::new(Box::new(resource)).downcast_ref(), Some(&resource));
    /// ```
    fn to_any(&self) -> Option<AnyResource<()>>
    where
        Self: 'static,
    {
        None
    }
}

/// A resource that containers can keep a handle to: its memory is the device's, and a clone of it
/// is the same resource.
///
/// Implemented for every type that can be one.
///
/// ```
/// use rmm_core::{AnyResource, DeviceResource};
/// use rmm_resources::CudaMemoryResource;
///
/// fn keep(resource: &impl DeviceResource) -> AnyResource {
///     AnyResource::of(resource)
/// }
/// let kept = keep(&CudaMemoryResource::new());
/// assert_eq!(keep(&kept), kept);
/// ```
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
