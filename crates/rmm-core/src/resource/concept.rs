//! The traits of a memory resource, and the types that their signatures name.
//!
//! The traits and these types refer to each other, so they stand in one file: a resource answers a
//! [`Request`], a request keeps resources as its answer, and a handle is an [`AnyResource`], which
//! holds a resource. What can be done with them stands in the files above.

use std::alloc::Layout;
use std::any::Any;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use super::describe::Description;
use crate::property::{DeviceAccessible, Exactly, PropertyId, PropertySet};
use crate::{DevicePtr, Error, StreamRef};

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

/// A resource seen without its type. Every resource has this; it is not for implementing.
pub trait Erasable {
    /// The resource as a value of any type.
    fn as_any(&self) -> &(dyn Any + 'static)
    where
        Self: 'static;

    /// The resource as one of any type.
    fn as_dyn<'a>(&self) -> &(dyn SyncResource + 'a)
    where
        Self: 'a;
}

impl<R: SyncResource> Erasable for R {
    fn as_any(&self) -> &(dyn Any + 'static)
    where
        Self: 'static,
    {
        self
    }

    fn as_dyn<'a>(&self) -> &(dyn SyncResource + 'a)
    where
        Self: 'a,
    {
        self
    }
}

/// A resource whose memory can be asked for at an address, and whose blocks, where they are
/// neighbours, may be used as one.
///
/// A pool over such a resource extends the memory that it has by what is missing, and gives any of
/// its blocks back, the ones in the middle too. Each block is given back as it was asked for, in
/// whichever order. Over other resources two blocks may well be neighbours, and work that runs from
/// one into the other is an error.
///
/// [`Introspect::as_extendable`](crate::Introspect::as_extendable) finds out, through references and erased types:
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{AnyResource, DevicePtr, Introspect, SyncResource};
/// use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let resource: AnyResource = AnyResource::new(VirtualMemoryResource::new()?);
/// let extendable = resource.as_extendable().ok_or("it is")?;
/// let page = Layout::from_size_align(extendable.page_size(), 256)?;
/// let first = resource.allocate_sync(page)?;
/// let second = DevicePtr(first.0 + page.size() as u64);
/// extendable.allocate_at(second, page)?; // one block of two pages, from `first`
/// // SAFETY: allocated above with these layouts, and not used.
/// unsafe {
///     resource.deallocate_sync(first, page);
///     resource.deallocate_sync(second, page);
/// }
/// assert!(CudaMemoryResource::new().as_extendable().is_none());
/// # Ok(())
/// # }
/// ```
///
/// # Safety
/// Blocks that are neighbours are one piece of memory: work may run from one into the next as
/// within one block. Those from [`allocate_at`](Self::allocate_at) are blocks as those from
/// [`SyncResource::allocate_sync`], and lie where they were asked for. A block whose size is a
/// multiple of the page size takes up no more than its size; all blocks start at a multiple of it.
pub unsafe trait ExtendableResource: SyncResource {
    /// What addresses, and the sizes of blocks that shall have no gaps between them, are multiples
    /// of: bytes, a power of two that is not below 256.
    fn page_size(&self) -> usize;

    /// The most bytes that all blocks together can have, where that is known: who lacks more need
    /// not ask piece by piece.
    fn most_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether blocks outlive the context that was current when they were allocated, as physical
    /// memory does that is mapped: then blocks that nothing uses are to be freed also after the
    /// context has ended.
    fn outlives_context(&self) -> bool {
        false
    }

    /// Allocates memory at exactly this address, as [`allocate_sync`](SyncResource::allocate_sync)
    /// does at one of its own choice.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if memory cannot be had;
    /// [`ErrorKind::OutOfRange`](crate::ErrorKind::OutOfRange) if these addresses cannot, since
    /// they are in use or not the resource's;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the address is no
    /// multiple of the page size; other kinds as the resource says.
    fn allocate_at(&self, address: DevicePtr, layout: Layout) -> Result<(), Error>;
}

/// A typed question to a resource, in the manner of [`std::error::Error::provide`].
///
/// [`SyncResource::provide`] answers it: it names everything that the resource can provide, and the
/// request keeps what it asks for. Of several answers to a question that has one answer the first
/// counts, so that a resource may provide its own and then let another resource answer the rest.
///
/// ```
/// use rmm_core::{DeviceAccessible, HasProperty, Introspect, Request, SyncResource};
/// # use rmm_core::{DevicePtr, Error};
/// # use std::alloc::Layout;
/// use rmm_resources::CudaMemoryResource;
///
/// #[derive(Debug)]
/// struct Halves<R> {
///     upstream: R,
/// }
/// # // SAFETY: every call goes to the upstream, which keeps the contract.
/// # unsafe impl<R: SyncResource> SyncResource for Halves<R> {
/// #     fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
/// #         self.upstream.allocate_sync(layout)
/// #     }
/// #     unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
/// #         // SAFETY: the caller's contract is the same.
/// #         unsafe { self.upstream.deallocate_sync(pointer, layout) }
/// #     }
/// #     fn name(&self) -> &'static str {
/// #         "halves"
/// #     }
/// // in its implementation of `SyncResource`:
/// fn provide<'a>(&'a self, request: &mut Request<'a>) {
///     request
///         .upstream(&self.upstream)
///         .properties_from(&self.upstream)
///         .describe(|description| drop(description.count("halves", 2)));
/// }
/// # }
///
/// let halves = Halves { upstream: CudaMemoryResource::new() };
/// assert!(halves.has_property::<DeviceAccessible>());
/// assert_eq!(halves.describe().to_string(), "halves: halves 2\n└─ cuda");
/// ```
pub struct Request<'a>(pub(super) Query<'a>);

/// What is asked for, and the answer so far.
pub(super) enum Query<'a> {
    HasProperty {
        wanted: PropertyId,
        found: bool,
    },
    /// A slot of the wanted property.
    PropertyValue(&'a mut dyn Any),
    PropertyList(Vec<PropertyId>),
    Pointee(Option<&'a (dyn SyncResource + 'a)>),
    Upstream(Option<&'a (dyn SyncResource + 'a)>),
    OtherUpstreams(Vec<(String, &'a (dyn SyncResource + 'a))>),
    Metrics(Description),
    Extendable(Option<&'a dyn ExtendableResource>),
    Handle(Option<Arc<dyn ErasedSync + 'a>>),
    /// An `Option` of the wanted type.
    Value(&'a mut dyn Any),
}

/// What can still be asked after the type is erased.
pub(crate) trait ErasedSync: SyncResource {
    /// The resource that was erased, by its own type.
    fn erased(&self) -> &dyn Any
    where
        Self: 'static;

    /// Whether `other` is of the type that was erased, and equal to this resource.
    fn equals(&self, other: &dyn Any) -> bool
    where
        Self: 'static;
}

impl<R: SyncResource + PartialEq> ErasedSync for R {
    fn erased(&self) -> &dyn Any
    where
        Self: 'static,
    {
        self
    }

    fn equals(&self, other: &dyn Any) -> bool
    where
        Self: 'static,
    {
        other.downcast_ref::<R>().is_some_and(|other| self == other)
    }
}

/// The same, in stream order.
pub(crate) trait Erased: Resource + ErasedSync {}

impl<R: Resource + PartialEq> Erased for R {}

/// What an [`AnyResource`] holds, whatever its properties: by it one is recognised behind pointers,
/// so that it is never wrapped twice and always compared by what is inside.
#[derive(Clone, Debug)]
pub(crate) struct Shared(pub(crate) Arc<dyn Erased>);

/// An owned resource of any type, whose memory has every property in the set `S`. Clones are the
/// same resource.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{AnyResource, SyncResource};
/// use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let plain: AnyResource = AnyResource::new(CudaMemoryResource::new());
/// let pooled: AnyResource = AnyResource::new(CudaAsyncMemoryResource::new()?);
/// let layout = Layout::from_size_align(1000, 256)?;
/// for resource in [&plain, &pooled] {
///     let pointer = resource.allocate_sync(layout)?;
///     // SAFETY: allocated above with this layout, and not used.
///     unsafe { resource.deallocate_sync(pointer, layout) };
/// }
/// // Equal means that memory from one may be freed by the other; the type can be found again.
/// assert_eq!(pooled, pooled.clone());
/// assert_ne!(plain, pooled);
/// assert_eq!(plain.downcast_ref(), Some(&CudaMemoryResource::new()));
/// # Ok(())
/// # }
/// ```
///
/// What the type knows of the memory can be made less, which costs nothing, and more, which asks
/// the resource:
///
/// ```
/// use rmm_core::{AnyResource, DeviceAccessible, HostAccessible};
/// use rmm_resources::CudaMemoryResource;
///
/// let device: AnyResource = AnyResource::new(CudaMemoryResource::new());
/// let some = device.narrow::<()>();
/// let device = some.try_widen::<DeviceAccessible>().expect("it is the device's");
/// let refused = device.try_widen::<HostAccessible>().expect_err("the host cannot read it");
/// assert!(refused.is_equal(&CudaMemoryResource::new())); // given back as it was
/// ```
#[doc(alias = "cuda::mr::any_resource")]
#[doc(alias = "make_any_resource")]
pub struct AnyResource<S: PropertySet = DeviceAccessible> {
    /// # Invariant
    /// Its memory has every property in `S`.
    pub(crate) shared: Shared,
    set: Exactly<S>,
}

impl<S: PropertySet> AnyResource<S> {
    /// Its memory must have every property in `S`.
    pub(crate) fn from_shared(shared: Shared) -> Self {
        Self { shared, set: PhantomData }
    }

    pub(crate) fn into_shared(self) -> Shared {
        self.shared
    }
}
