//! RMM's arena: a pool of a fixed size, unless a maximum size lets it grow.

mod builder;
mod report;

use std::alloc::Layout;
use std::path::Path;
use std::sync::Arc;

use rmm_core::{
    AnyResource, Contains, DeviceAccessible, DevicePtr, Error, HasProperty, LimitId, Property,
    PropertySet, Query, Resource, SatisfiedBy, StreamRef, Structure, SynchronousResource,
};

use crate::shared::with_properties::{WithProperties, provide_views};
use crate::{PoolMemoryResource, PoolStatistics};
pub use builder::ArenaMemoryResourceBuilder;
pub use report::ArenaReport;

/// A [`PoolMemoryResource`] that takes all its memory when it is built: RMM's arena, with its name,
/// its options and its dump.
///
/// The memory is one upstream block, half of the device's free memory by default. It does not grow
/// unless a [maximum size](ArenaMemoryResourceBuilder::maximum_size) allows it; a request that does
/// not fit fails, after all steps of the pool. Then a [report](Self::report) is written to a file,
/// if the builder [says so](ArenaMemoryResourceBuilder::dump_log_on_failure).
///
/// Everything else is the pool's: thread caches, reuse in stream order, waits, CUDA graphs, and
/// default streams. RMM's arena divides its memory by streams and threads, so that they share no
/// lock; here they share none because of the caches. Prefer the pool itself where the size need not
/// be fixed: it takes what the program uses, and grows and shrinks.
///
/// It is a handle: clones share one state, which returns the memory to upstream when the last clone
/// is dropped. Any thread may use it.
///
/// Its memory has every property that the upstream's has.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::ArenaMemoryResource;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let arena = ArenaMemoryResource::builder(CudaMemoryResource::new()).arena_size(64 << 20).build()?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(48 << 20, 256)?;
/// let block = arena.allocate(&stream, layout)?;
/// assert!(arena.allocate(&stream, layout).unwrap_err().is_out_of_memory());
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { arena.deallocate(&stream, block, layout) };
/// assert_eq!(arena.statistics().upstream_allocations, 1);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::arena_memory_resource")]
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ArenaMemoryResource<S: PropertySet = DeviceAccessible> {
    pool: PoolMemoryResource<S>,
    /// Where reports of refused requests are appended.
    dump_log: Option<Arc<Path>>,
}

impl ArenaMemoryResource {
    /// Options for an arena over `upstream`, whose memory the device may use.
    pub fn builder<U>(upstream: U) -> ArenaMemoryResourceBuilder
    where
        U: Resource + HasProperty<DeviceAccessible> + PartialEq + 'static,
    {
        Self::builder_with_properties(upstream)
    }
}

impl<S: PropertySet> ArenaMemoryResource<S> {
    /// Options for an arena over memory that has every property in `S`, as
    /// [`PoolMemoryResource::builder_with_properties`].
    pub fn builder_with_properties<U>(upstream: U) -> ArenaMemoryResourceBuilder<S>
    where
        U: Resource + PartialEq + 'static,
        S: SatisfiedBy<U>,
    {
        ArenaMemoryResourceBuilder::new(AnyResource::new(upstream))
    }

    /// The resource that the memory is taken from.
    #[doc(alias = "get_upstream_resource")]
    pub fn upstream(&self) -> &AnyResource<S> {
        self.pool.upstream()
    }

    /// Bytes taken from upstream.
    pub fn arena_size(&self) -> u64 {
        self.pool.reserved_bytes()
    }

    /// What the arena has done so far.
    pub fn statistics(&self) -> PoolStatistics {
        self.pool.statistics()
    }

    /// A snapshot of the memory: how much is free, and how fragmented. Takes time in the number of
    /// blocks.
    ///
    /// ```
    /// use rmm_adaptors::ArenaMemoryResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let arena = ArenaMemoryResource::builder(CudaMemoryResource::new()).arena_size(4 << 20).build()?;
    /// let report = arena.report();
    /// assert_eq!((report.largest_free, report.total_free), (4 << 20, 4 << 20));
    /// assert!(report.to_string().ends_with("fragmentation: 0.0 %"));
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[doc(alias = "dump_memory_log")]
    pub fn report(&self) -> ArenaReport {
        ArenaReport::of(&self.pool.blocks())
    }

    /// Returns unused memory to upstream, as [`PoolMemoryResource::trim`] does; over `cudaMalloc`
    /// only the whole block. RMM's arena returns nothing before it is destroyed. This one returns
    /// nothing by itself, unless it has to grow, or another suballocator of the device is short of
    /// memory.
    ///
    /// The arena takes memory again when requests need it, up to its maximum size, but over a
    /// resource such as `cudaMalloc` no longer in one contiguous block.
    ///
    /// ```
    /// use rmm_adaptors::ArenaMemoryResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let arena = ArenaMemoryResource::builder(CudaMemoryResource::new()).arena_size(4 << 20).build()?;
    /// assert_eq!((arena.trim(0), arena.arena_size()), (4 << 20, 0));
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    pub fn trim(&self, keep: u64) -> u64 {
        self.pool.trim(keep)
    }

    /// Returns idle memory, as [`trim`](Self::trim) does, after a wait for pending frees: see
    /// [`PoolMemoryResource::trim_blocking`].
    pub fn trim_blocking(&self, keep: u64) -> u64 {
        self.pool.trim_blocking(keep)
    }

    /// Changes the maximum size, or lifts it: [`PoolMemoryResource::set_maximum_size`].
    ///
    /// # Errors
    /// As there.
    pub fn set_maximum_size(&self, bytes: impl Into<Option<u64>>) -> Result<(), Error> {
        self.pool.set_maximum_size(bytes)
    }

    /// The identity of the resource in errors and remedies: [`Error::limit_id`].
    pub fn limit_id(&self) -> LimitId {
        self.pool.limit_id()
    }

    /// Makes memory that was freed on captured streams available again, as
    /// [`PoolMemoryResource::release_graph_memory`] does.
    ///
    /// # Safety
    /// As for [`PoolMemoryResource::release_graph_memory`].
    pub unsafe fn release_graph_memory(&self) {
        // SAFETY: the caller's contract; every graph's memory is the pool's.
        unsafe { self.pool.release_graph_memory() };
    }

    /// The outcome of a request; a refusal is appended to the dump log, if one is set.
    #[inline]
    fn dumped(&self, outcome: Result<DevicePtr, Error>) -> Result<DevicePtr, Error> {
        if let Err(error) = &outcome {
            self.dump(error);
        }
        outcome
    }

    #[cold]
    fn dump(&self, error: &Error) {
        if let Some(path) = &self.dump_log
            && error.is_out_of_memory()
        {
            rmm_core::wait::about_to_wait();
            // A report that cannot be written does not change the error.
            let _ignored = self.report().append(path, error);
        }
    }
}

impl<S: PropertySet> PartialEq for ArenaMemoryResource<S> {
    /// Whether both are handles to one state.
    fn eq(&self, other: &Self) -> bool {
        self.pool == other.pool
    }
}

impl<S: PropertySet> Eq for ArenaMemoryResource<S> {}

// SAFETY: every call goes to the pool, which keeps the contract.
unsafe impl<S: PropertySet> SynchronousResource for ArenaMemoryResource<S> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.dumped(self.pool.do_allocate_sync(layout))
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; the memory is the pool's.
        unsafe { self.pool.do_deallocate_sync(pointer, layout) };
    }

    fn name(&self) -> &'static str {
        self.pool.name()
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        self.pool.structure()
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        provide_views(self, query);
        self.pool.provide_state(query);
    }
}

// SAFETY: every call goes to the pool, which keeps the contract.
unsafe impl<S: PropertySet> Resource for ArenaMemoryResource<S> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.dumped(self.pool.do_allocate(stream, layout))
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; the memory is the pool's.
        unsafe { self.pool.do_deallocate(stream, pointer, layout) };
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: the memory is the pool's.
unsafe impl<S: Contains<P>, P: Property> HasProperty<P> for ArenaMemoryResource<S> {}

// SAFETY: the layout is that of C, and of the fields only the pool depends on the set, for which
// the same holds.
unsafe impl<S: PropertySet> WithProperties for ArenaMemoryResource<S> {
    type With<T: PropertySet> = ArenaMemoryResource<T>;
}
