//! The traits of a memory resource, and the types that their signatures name.
//!
//! The traits and these types refer to each other, so they stand in one file: a resource has a
//! [`Structure`], which names other resources, and a handle is an [`AnyResource`], which holds a
//! resource. The operations on them stand in `structure.rs` and `erased/`.

use std::alloc::Layout;
use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use super::query::Query;
use super::trim::TrimmableResource;
use crate::property::{DeviceAccessible, Exactly, PropertySet};
use crate::{DevicePtr, Error, StreamRef};

/// A source of memory that every stream may use as soon as the call returns.
///
/// To use one, call [`allocate_sync`](Self::allocate_sync). To write one, implement the three
/// required functions, the first two of which get no request of zero bytes,
/// [`structure`](Self::structure) to name the upstream, and [`provide`](Self::provide) to declare
/// properties and statistics:
///
/// ```
/// use std::alloc::Layout;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use rmm_core::{DevicePtr, Error, Introspect, MemoryKind, Query, Structure, SynchronousResource};
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
/// unsafe impl<R: SynchronousResource> SynchronousResource for Counting<R> {
///     fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
///         self.asked.fetch_add(1, Ordering::Relaxed);
///         self.upstream.allocate_sync(layout)
///     }
///
///     unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
///         // SAFETY: the caller's contract is the same.
///         unsafe { self.upstream.deallocate_sync(pointer, layout) }
///     }
///
///     fn name(&self) -> &'static str {
///         "counting"
///     }
///
///     fn structure(&self) -> Structure<'_>
///     where
///         Self: 'static,
///     {
///         Structure::over(&self.upstream)
///     }
///
///     fn provide<'a>(&'a self, query: &mut Query<'a>) {
///         query.properties_from(&self.upstream);
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
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
/// A type that is a handle, as most are, also gives one away
/// ([`to_any_sync`](Self::to_any_sync)), so that a reference to it can be turned into an owned
/// resource.
///
/// `&R`, `Box<R>` and `Arc<R>` are the resource `R`; `Arc` makes it cloneable, so that an owned
/// resource can be made of it.
///
/// # Safety
/// An implementation keeps the contract in the [crate's documentation](crate#stream-order): a block
/// is not allocated again, nor returned to the upstream, before it is freed; it is contiguous,
/// aligned as the layout demands, and overlaps no live block of another resource, unless one takes
/// its memory from the other. If the type implements [`PartialEq`], equal resources can free
/// each other's memory. What [`provide`](Self::provide) answers is true:
///
/// 1. The properties hold for all memory that the resource allocates, as
///    [`HasProperty`](crate::HasProperty) demands.
/// 2. The [pointee](Structure::pointer_to) is always the same resource, and allocates this one's
///    memory: it is called in this one's place. So is the handle of
///    [`to_any_sync`](Self::to_any_sync) and [`Resource::to_any`], which has all properties of the
///    resource.
/// 3. A [view](Query::view) is this resource: it allocates the same memory, and equal views can
///    free each other's memory, as equal resources can.
#[doc(alias = "cuda::mr::synchronous_resource")]
#[doc(alias = "SyncResource")]
#[doc(alias = "cuda::mr::shared_resource")]
#[diagnostic::on_unimplemented(message = "`{Self}` is no memory resource")]
pub unsafe trait SynchronousResource: Debug + Send + Sync + AsDyn {
    /// [`allocate_sync`](Self::allocate_sync), for authors: allocates memory that every stream may
    /// use once this returns. The size is not zero.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if there is not enough memory;
    /// other kinds as the resource documents. A direct call with a size of zero may fail.
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error>;

    /// [`deallocate_sync`](Self::deallocate_sync), for authors: frees memory. Driver errors cannot
    /// be reported here; each resource documents how it handles them.
    ///
    /// # Safety
    /// The memory came from a resource equal to this one, with this layout, whose size is not zero,
    /// and is not freed already; every use of it has completed.
    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout);

    /// Allocates memory that every stream may use once this returns. Calls
    /// [`do_allocate_sync`](Self::do_allocate_sync), unless zero bytes are requested, and is not
    /// for overriding.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if there is not enough memory;
    /// other kinds as the resource documents. Zero bytes always succeed.
    #[inline]
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        if layout.size() == 0 {
            return Ok(DevicePtr::NULL);
        }
        self.do_allocate_sync(layout)
    }

    /// Frees memory. Calls [`do_deallocate_sync`](Self::do_deallocate_sync), unless the size is
    /// zero, and is not for overriding.
    ///
    /// # Safety
    /// The memory came from a resource equal to this one, with this layout, and is not freed
    /// already; every use of it has completed.
    #[inline]
    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: the caller's contract, and the size is not zero.
            unsafe { self.do_deallocate_sync(pointer, layout) }
        }
    }

    /// The resource's name, for messages and logs: short, lowercase, such as `pool`.
    fn name(&self) -> &'static str;

    /// The resources that this one takes memory from, and its further interfaces. By default it has
    /// none.
    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::default()
    }

    /// Answers a typed query: the properties of the memory, sizes and counters, values of other
    /// types. Provide everything that the resource has; the [`Query`] keeps what it asks for.
    ///
    /// [`Introspect`](crate::Introspect) makes the queries. An adaptor provides the properties of
    /// its upstream.
    fn provide<'a>(&'a self, _query: &mut Query<'a>) {}

    /// An owned handle to this resource, if its type is a handle: a clone is the same resource, and
    /// equal to it. Such a type implements it by `Some(AnySynchronousResource::of(self))`. If it
    /// has stream order, implement [`Resource::to_any`] too.
    ///
    /// [`SynchronousResourceRef::try_to_owned`](crate::ResourceRef::try_to_owned) calls it.
    fn to_any_sync(&self) -> Option<AnyResource<(), Synchronous>>
    where
        Self: 'static,
    {
        None
    }
}

/// A source of stream-ordered memory.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
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
/// The contract of [`SynchronousResource`], in stream order: memory allocated on a stream may be
/// used by work enqueued on it from then on, so every earlier use of it is ordered before that
/// work.
#[doc(alias = "cuda::mr::resource")]
#[doc(alias = "cuda::stream_ordered_memory_resource")]
#[doc(alias = "rmm::mr::device_memory_resource")]
pub unsafe trait Resource: SynchronousResource {
    /// [`allocate`](Self::allocate), for authors: allocates memory for use by work enqueued on
    /// `stream` from now on. The size is not zero.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if there is not enough memory;
    /// other kinds as the resource documents. A direct call with a size of zero may fail.
    #[doc(alias = "do_allocate_async")]
    #[doc(alias = "rmm::mr::device_memory_resource::do_allocate")]
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error>;

    /// [`deallocate`](Self::deallocate), for authors: frees memory once the work enqueued on
    /// `stream` so far has completed, without waiting for it where possible.
    ///
    /// # Safety
    /// The memory came from a resource equal to this one, with this layout, whose size is not zero,
    /// and is not freed already; every use of it is ordered before all work enqueued on `stream`
    /// from now on.
    #[doc(alias = "do_deallocate_async")]
    #[doc(alias = "rmm::mr::device_memory_resource::do_deallocate")]
    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout);

    /// Allocates memory for use by work enqueued on `stream` from now on: `&CudaStream` or
    /// [`StreamRef`]. Calls [`do_allocate`](Self::do_allocate), unless zero bytes are requested,
    /// and is not for overriding.
    ///
    /// A trait object has no generic methods, and a reference to one has: with a `&dyn Resource`
    /// call `(&resource).allocate(..)`, or use [`AnyResource`] and
    /// [`ResourceRef`](crate::ResourceRef) in its place.
    ///
    /// # Errors
    /// The errors of [`do_allocate`](Self::do_allocate). Zero bytes always succeed.
    #[inline]
    fn allocate<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error>
    where
        Self: Sized,
    {
        if layout.size() == 0 {
            return Ok(DevicePtr::NULL);
        }
        self.do_allocate(stream.into(), layout)
    }

    /// Frees memory once the work enqueued on `stream` so far has completed, without waiting for it
    /// where possible. Calls [`do_deallocate`](Self::do_deallocate), unless the size is zero, and
    /// is not for overriding.
    ///
    /// # Safety
    /// The memory came from a resource equal to this one, with this layout, and is not freed
    /// already; every use of it is ordered before all work enqueued on `stream` from now on.
    #[inline]
    unsafe fn deallocate<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        pointer: DevicePtr,
        layout: Layout,
    ) where
        Self: Sized,
    {
        if layout.size() > 0 {
            // SAFETY: the caller's contract, and the size is not zero.
            unsafe { self.do_deallocate(stream.into(), pointer, layout) }
        }
    }

    /// An owned handle to this resource, if its type is a handle: a clone is the same resource, and
    /// equal to it. Such a type implements it by `Some(AnyResource::of(self))`, and
    /// [`to_any_sync`](SynchronousResource::to_any_sync) too.
    ///
    /// [`ResourceRef::try_to_owned`](crate::ResourceRef::try_to_owned) calls it, and so does
    /// [`AnyResource::new`] to unwrap a pointer.
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

/// Conversion to trait objects. Implemented for every resource of a known size; not for
/// implementing.
///
/// # Safety
/// Both functions return `self`: what they return is called, and compared, in its place.
pub unsafe trait AsDyn {
    /// The resource as [`Any`], for a downcast.
    fn as_any(&self) -> &(dyn Any + 'static)
    where
        Self: 'static;

    /// The resource as a trait object.
    fn as_dyn<'a>(&self) -> &(dyn SynchronousResource + 'a)
    where
        Self: 'a;
}

// SAFETY: both return `self`.
unsafe impl<R: SynchronousResource> AsDyn for R {
    fn as_any(&self) -> &(dyn Any + 'static)
    where
        Self: 'static,
    {
        self
    }

    fn as_dyn<'a>(&self) -> &(dyn SynchronousResource + 'a)
    where
        Self: 'a,
    {
        self
    }
}

/// What a resource is made of: the resources that it takes memory from, and the interfaces that it
/// has beside the two traits. The answer of [`SynchronousResource::structure`].
///
/// ```
/// use rmm_adaptors::{FallbackMemoryResource, PoolMemoryResource};
/// use rmm_core::{Introspect, SynchronousResource};
/// use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};
///
/// # let _machine = rmm_sim::enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
/// let resource = FallbackMemoryResource::new(pool, ManagedMemoryResource::new());
/// let structure = resource.structure();
/// let pool = structure.upstream().expect("the first");
/// assert!(pool.as_trimmable().is_some() && structure.trimmable().is_none());
/// let (purpose, managed) = &structure.other_upstreams()[0];
/// assert_eq!((&**purpose, managed.name()), ("fallback", "managed"));
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Structure<'a> {
    pub(super) pointee: Option<&'a (dyn SynchronousResource + 'static)>,
    pub(super) upstream: Option<&'a (dyn SynchronousResource + 'static)>,
    pub(super) others: Vec<(Cow<'static, str>, &'a (dyn SynchronousResource + 'static))>,
    pub(super) extendable: Option<&'a (dyn ExtendableResource + 'static)>,
    pub(super) trimmable: Option<&'a (dyn TrimmableResource + 'static)>,
}

/// A resource that allocates at a given address, and whose adjacent blocks may be used as one.
/// **Unstable**: may change in any release, and is for this library's pools.
///
/// A pool over such a resource grows in place by what is missing, and can return any block to it,
/// in the middle of an extent too. Each block is freed with its own layout, in any order. Blocks of
/// other resources may happen to be adjacent, but a kernel that runs from one into the other is an
/// error.
///
/// [`Introspect::as_extendable`](crate::Introspect::as_extendable) returns this interface, through
/// references and type erasure:
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{AnyResource, DevicePtr, Introspect, SynchronousResource};
/// use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let resource: AnyResource = AnyResource::new(VirtualMemoryResource::new()?);
/// let extendable = resource.as_extendable().ok_or("it is")?;
/// let page = Layout::from_size_align(extendable.page_size().try_into()?, 256)?;
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
/// Adjacent blocks are contiguous memory: a kernel may run from one into the next as within one
/// block. Those from [`allocate_at`](Self::allocate_at) are like those from
/// [`SynchronousResource::allocate_sync`], at the requested address. A block whose size is a
/// multiple of the page size takes up no more than its size; all blocks start at a multiple of it.
pub unsafe trait ExtendableResource: SynchronousResource {
    /// The granularity in bytes, a power of two of at least 256: addresses are multiples of it, and
    /// so are the sizes of blocks that are to be adjacent without gaps.
    fn page_size(&self) -> u64;

    /// Upper bound on the bytes of all blocks together, if known. A pool that lacks more fails
    /// without trying block by block.
    fn most_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether blocks outlive the context that was current when they were allocated, as mapped
    /// memory does: then they must be freed also after its end, once no other context uses them.
    fn outlives_context(&self) -> bool {
        false
    }

    /// Allocates memory at exactly this address, otherwise as
    /// [`allocate_sync`](SynchronousResource::allocate_sync).
    ///
    /// # Errors
    /// `OutOfMemory` if there is not enough; `OutOfRange` if addresses are in use, or not of the
    /// resource; `InvalidArgument` if it is no multiple of the page size; others as documented.
    fn allocate_at(&self, address: DevicePtr, layout: Layout) -> Result<(), Error>;

    /// Returns the memory of blocks, which lose their contents and keep their addresses.
    ///
    /// # Errors
    /// Unsupported by default. After others, [`resume`](Self::resume) brings all contents back.
    ///
    /// # Safety
    /// They are allocated here with these layouts; no work uses them before they are resumed.
    unsafe fn suspend(&self, _blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        Err(Error::unsupported(self.name(), "it cannot return memory and keep the addresses"))
    }

    /// Makes suspended blocks usable again, at their addresses.
    ///
    /// # Errors
    /// The errors of [`allocate_at`](Self::allocate_at). It can be tried again.
    fn resume(&self, _blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        Ok(())
    }
}

/// A resource that can be compared after its type is erased.
#[expect(unnameable_types, reason = "part of the sealed traits")]
pub trait ComparableSynchronousResource: SynchronousResource {
    /// The resource of the type that was erased, rather than the allocation that it is in.
    fn inner(&self) -> &(dyn SynchronousResource + 'static)
    where
        Self: 'static;

    /// Whether `other` is, or provides a [view](Query::view) of itself as, a resource of the type
    /// of [`inner`](Self::inner) that is equal to it.
    fn equals(&self, other: &(dyn SynchronousResource + 'static)) -> bool
    where
        Self: 'static;
}

/// A stream-ordered resource that can be compared after its type is erased.
#[expect(unnameable_types, reason = "part of the sealed traits")]
pub trait ComparableResource: Resource + ComparableSynchronousResource {}

/// The order of a type-erased resource's calls: [`StreamOrdered`] or [`Synchronous`]. There are no
/// others.
pub trait Order: SealedOrder + Debug + Copy + 'static {}

/// What a type-erased resource is by the order of its calls. It seals [`Order`]: what an erased
/// resource equals, and what memory it has, rests on it.
#[expect(unnameable_types, reason = "it seals `Order`")]
pub trait SealedOrder {
    /// The trait object that an erased resource is.
    type Dyn: ComparableSynchronousResource + ?Sized + 'static;

    /// The resource with the synchronous calls only.
    fn synchronous(resource: &Self::Dyn) -> &(dyn ComparableSynchronousResource + 'static);

    /// The allocation that an owned handle to the resource shares, if its type is a handle.
    fn owned(resource: &Self::Dyn) -> Option<Shared<Self::Dyn>>;
}

/// The calls are in the order of a stream, or synchronous: [`Resource`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamOrdered;

/// The calls are synchronous: [`SynchronousResource`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synchronous;

/// What an [`AnyResource`] holds, whatever its property set. Code that sees a pointer looks for
/// this type, so that an erased resource is never wrapped twice and is compared by what it holds.
#[derive(Debug)]
#[expect(unnameable_types, reason = "part of the sealed traits")]
pub struct Shared<D: ?Sized>(pub(crate) Arc<D>);

impl<D: ?Sized> Clone for Shared<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// An owned resource whose memory has every property in the set `S`. Clones are one resource.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{AnyResource, SynchronousResource};
/// use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
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
/// Narrowing the set is free and checked at compile time; widening it is checked at run time:
///
/// ```
/// use rmm_core::{AnyResource, DeviceAccessible, HostAccessible};
/// use rmm_resources::CudaMemoryResource;
///
/// let device: AnyResource = AnyResource::new(CudaMemoryResource::new());
/// let some = device.narrow::<()>();
/// let device = some.try_widen::<DeviceAccessible>().expect("it is the device's");
/// let refused = device.try_widen::<HostAccessible>().expect_err("the host cannot read it");
/// assert!(refused.is_equal(&CudaMemoryResource::new())); // returned unchanged
/// ```
///
/// Its calls are in the order `O`: with a stream, unless it is an
/// [`AnySynchronousResource`](crate::AnySynchronousResource).
#[doc(alias = "rmm::mr::polymorphic_allocator")]
#[doc(alias = "cuda::mr::any_resource")]
#[doc(alias = "make_any_resource")]
#[repr(transparent)]
pub struct AnyResource<S: PropertySet = DeviceAccessible, O: Order = StreamOrdered> {
    /// # Invariant
    /// Its memory has every property in `S`.
    pub(crate) shared: Shared<O::Dyn>,
    set: Exactly<S>,
}

impl<S: PropertySet, O: Order> AnyResource<S, O> {
    /// # Safety
    /// Its memory has every property in `S`.
    pub(crate) unsafe fn from_shared(shared: Shared<O::Dyn>) -> Self {
        Self { shared, set: PhantomData }
    }
}

impl<S: PropertySet, O: Order> Clone for AnyResource<S, O> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), set: PhantomData }
    }
}
