//! A second resource for when the first is out of memory.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use rmm_core::adaptor_support::{Calls, StreamCalls, SyncCalls};
use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{
    AnyResource, Contains, DeviceAccessible, DevicePtr, Error, HasProperty, Property, PropertySet,
    Query, Resource, SatisfiedBy, StreamRef, Structure, SynchronousResource, fork,
};

use crate::shared::with_properties::{Exactly, WithProperties, provide_views};
use crate::sync::Counter;
use crate::sync::address_table::AddressTable;
use crate::sync::first_thread::Access;

/// Allocates from a second resource when the first is out of memory: from managed memory behind a
/// pool of device memory, for example.
///
/// Only a request that fails in the first with an [out-of-memory error](Error::is_out_of_memory)
/// goes to the second; other errors are returned. If the second fails too, its error is returned,
/// with the first's as its source. Each block is freed to the resource that allocated it: a table
/// holds the addresses of the second's blocks, and while it is empty a free costs one load. An
/// address must not be live in both at the same time; two adaptors over one pool meet this.
///
/// Its memory has a property if the memory of both has it, and a
/// [kind](rmm_core::MemoryKind) if theirs are equal. It is a handle: clones share the table.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::{FallbackMemoryResource, LimitingResourceAdaptor};
/// use rmm_core::SynchronousResource;
/// use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let device = LimitingResourceAdaptor::new(CudaMemoryResource::new(), 4096);
/// let resource = FallbackMemoryResource::new(device, ManagedMemoryResource::new());
/// let layout = Layout::from_size_align(4096, 256)?;
/// let (first, second) = (resource.allocate_sync(layout)?, resource.allocate_sync(layout)?);
/// assert_eq!(resource.fallback_bytes(), 4096);
/// // SAFETY: allocated above with this layout, and not used.
/// unsafe { resource.deallocate_sync(second, layout) };
/// assert_eq!(resource.fallback_bytes(), 0);
/// # // SAFETY: as above.
/// # unsafe { resource.deallocate_sync(first, layout) };
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct FallbackMemoryResource<S: PropertySet = DeviceAccessible> {
    /// # Invariant
    /// The memory of both resources has every property in `S`.
    inner: Arc<Inner>,
    set: Exactly<S>,
}

struct Inner {
    first: AnyResource<()>,
    second: AnyResource<()>,
    owned: Owned,
}

/// Addresses of the blocks of `second`.
#[derive(Default)]
struct Owned {
    pointers: AddressTable,
    blocks: Counter,
    bytes: Counter,
    fallbacks: Counter,
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointers: _, blocks, bytes, fallbacks } = self;
        let mut fields = f.debug_struct("Owned");
        fields.field("blocks", &blocks.get()).field("bytes", &bytes.get());
        fields.field("fallbacks", &fallbacks.get()).finish()
    }
}

impl FallbackMemoryResource {
    /// Allocates from `first`, and from `second` when `first` is out of memory. The device may use
    /// the memory of both.
    pub fn new<P, Q>(first: P, second: Q) -> Self
    where
        P: Resource + HasProperty<DeviceAccessible> + PartialEq + 'static,
        Q: Resource + HasProperty<DeviceAccessible> + PartialEq + 'static,
    {
        Self::with_properties(first, second)
    }
}

impl<S: PropertySet> FallbackMemoryResource<S> {
    /// Allocates from `first`, and from `second` when `first` is out of memory. The memory of both
    /// has every property in `S`.
    pub fn with_properties<P, Q>(first: P, second: Q) -> Self
    where
        P: Resource + PartialEq + 'static,
        Q: Resource + PartialEq + 'static,
        S: SatisfiedBy<P> + SatisfiedBy<Q>,
    {
        let (first, second) = (AnyResource::<()>::new(first), AnyResource::<()>::new(second));
        let inner = Arc::new(Inner { first, second, owned: Owned::default() });
        Self { inner, set: PhantomData }
    }

    /// The resource that is tried first.
    pub fn upstream(&self) -> &AnyResource<S> {
        // SAFETY: the invariant of `inner`.
        unsafe { self.inner.first.assume() }
    }

    /// The resource that is used when the first is out of memory.
    pub fn fallback(&self) -> &AnyResource<S> {
        // SAFETY: the invariant of `inner`.
        unsafe { self.inner.second.assume() }
    }

    /// Bytes of live blocks of the second resource.
    pub fn fallback_bytes(&self) -> u64 {
        self.inner.owned.bytes.get()
    }

    /// Allocations that the second resource has served so far.
    pub fn fallbacks(&self) -> u64 {
        self.inner.owned.fallbacks.get()
    }
}

impl Owned {
    #[cold]
    fn allocate(
        &self,
        second: &impl Calls,
        layout: Layout,
        why: Error,
    ) -> Result<DevicePtr, Error> {
        let pointer = second.allocate(layout).map_err(|error| {
            // If either is out of the device's memory, any suballocator may help.
            let limit = why.limit_id().filter(|_| error.limit_id().is_some());
            error.with_limit_id(limit).with_source(why)
        })?;
        self.pointers.insert_new(&Access::SHARED, pointer, 0);
        self.blocks.add(&Access::SHARED, 1);
        self.bytes.add(&Access::SHARED, layout.size() as u64);
        self.fallbacks.add(&Access::SHARED, 1);
        Ok(pointer)
    }

    /// Removes a block from the table. Returns whether it was there, that is, whether it is the
    /// second's.
    #[inline]
    fn remove(&self, pointer: DevicePtr, layout: Layout) -> bool {
        // The thread that frees a block has its address from the allocation, which happens after
        // the increment; only the free of that block takes the increment back.
        self.blocks.get() > 0 && self.remove_if_owned(pointer, layout)
    }

    #[cold]
    fn remove_if_owned(&self, pointer: DevicePtr, layout: Layout) -> bool {
        let is_owned = self.pointers.remove_own(pointer).is_some();
        if is_owned {
            self.blocks.subtract(&Access::SHARED, 1);
            self.bytes.subtract(&Access::SHARED, layout.size() as u64);
        }
        is_owned
    }
}

impl Inner {
    #[inline]
    fn allocate(
        &self,
        first: &impl Calls,
        second: &impl Calls,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        fork::check()?;
        match first.allocate(layout) {
            Err(error) if error.is_out_of_memory() => self.owned.allocate(second, layout, error),
            done => done,
        }
    }

    /// # Safety
    /// The contract of [`Resource::deallocate`] or [`SynchronousResource::deallocate_sync`].
    #[inline]
    unsafe fn deallocate(
        &self,
        first: &impl Calls,
        second: &impl Calls,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        if fork::is_child() {
            return;
        }
        // Before the second resource can return the address to another thread.
        if self.owned.remove(pointer, layout) {
            // SAFETY: the caller's contract; the table says that the block is the second's.
            unsafe { second.deallocate(pointer, layout) }
        } else {
            // SAFETY: the caller's contract; the block is not in the table, so it is the first's.
            unsafe { first.deallocate(pointer, layout) }
        }
    }
}

impl<S: PropertySet> fmt::Debug for FallbackMemoryResource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { first, second, owned } = &*self.inner;
        let mut fields = f.debug_struct("FallbackMemoryResource");
        fields
            .field("first", first)
            .field("second", second)
            .field("owned", owned)
            .finish_non_exhaustive()
    }
}

impl<S: PropertySet> PartialEq for FallbackMemoryResource<S> {
    /// Whether both are handles to one resource.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<S: PropertySet> Eq for FallbackMemoryResource<S> {}

// SAFETY: each block is allocated by one of the two, which keep the contract, and is freed to the
// same one.
unsafe impl<S: PropertySet> SynchronousResource for FallbackMemoryResource<S> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let Inner { first, second, .. } = &*self.inner;
        self.inner.allocate(&SyncCalls(first), &SyncCalls(second), layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        let Inner { first, second, .. } = &*self.inner;
        let (first, second) = (SyncCalls(first), SyncCalls(second));
        // SAFETY: the caller's contract is the same.
        unsafe { self.inner.deallocate(&first, &second, pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "fallback"
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        let Inner { first, second, .. } = &*self.inner;
        Structure::over(first).and("fallback", second)
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        provide_views(self, query).value(|| MayBeWaitedFor);
        let both = [self.upstream() as &dyn SynchronousResource, self.fallback()];
        query.common_properties(both);
        query.describe(|description| {
            description
                .bytes("from the fallback", self.fallback_bytes())
                .count("fallbacks", self.fallbacks());
        });
    }
}

// SAFETY: each block is freed to the resource that allocated it, as for `SynchronousResource`.
unsafe impl<S: PropertySet> Resource for FallbackMemoryResource<S> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        let Inner { first, second, .. } = &*self.inner;
        self.inner.allocate(&StreamCalls(first, stream), &StreamCalls(second, stream), layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        let Inner { first, second, .. } = &*self.inner;
        let (first, second) = (StreamCalls(first, stream), StreamCalls(second, stream));
        // SAFETY: the caller's contract is the same.
        unsafe { self.inner.deallocate(&first, &second, pointer, layout) }
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: the invariant of `inner`.
unsafe impl<S: Contains<P>, P: Property> HasProperty<P> for FallbackMemoryResource<S> {}

// SAFETY: the type is transparent over `inner`, whose type does not depend on the set; the marker
// of the set is of size zero. Only the invariant of `inner` depends on the set.
unsafe impl<S: PropertySet> WithProperties for FallbackMemoryResource<S> {
    type With<T: PropertySet> = FallbackMemoryResource<T>;
}
