//! A suballocator with an arena for each stream, all in one upstream block (Hoard, RMM's arena).

mod address_map;
mod arenas;
mod builder;
mod first_fit;
mod local;
mod member;
mod now;
mod reclaim;
mod report;
mod serve;
mod snapshot;
mod statistics;
mod superblock;
mod superblocks;
#[cfg(test)]
mod tests;
mod trim;

use std::alloc::Layout;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{
    AnyResource, DevicePtr, Error, HasMemoryKind, HasProperty, HasPropertyValue, LimitId,
    MemoryCaps, MemoryKind, PoolUsage, Property, PropertyWithValue, Request, Resource, StreamRef,
    SyncResource, TrimmableResource, fork, process_is_exiting,
};

use crate::PoolMemoryResource;
use arenas::Arenas;
pub use builder::ArenaMemoryResourceBuilder;
pub use report::{ArenaOfStream, ArenaReport};
pub use statistics::ArenaStatistics;

/// Divides one large upstream block, with an arena for each stream, so that threads with streams of
/// their own share no lock.
///
/// The memory is taken from upstream when the resource is built, and does not grow unless a
/// [maximum size](ArenaMemoryResourceBuilder::maximum_size) allows it. It is the *global arena*,
/// which serves requests above 1 MiB. For smaller ones each stream (each thread, for the per-thread
/// default stream) has an arena: superblocks of 1 MiB, in which a request gets the lowest address
/// that fits. Its allocations and frees take only the arena's lock, and make no driver call. An
/// empty superblock goes back to the global arena, except for one that each stream keeps.
///
/// A block may be freed on any stream and by any thread. Freed on another stream than it was
/// allocated on, it goes to the global arena, in the order of the stream that it was freed on. From
/// there it is reused as in a [`PoolMemoryResource`]: once its last use is known to be complete, or
/// after the next owner's stream was made to wait; no free waits. Idle superblocks of other arenas
/// are reclaimed before any stream waits, and all free memory of all arenas before a request is
/// refused. A stream that is destroyed leaves its memory to the global arena in its order. The
/// default stream of a thread that ends leaves blocks and a kept superblock that can be reused once
/// an event of the context covers its work.
///
/// The global arena also serves requests without a stream, on the legacy default stream, on streams
/// of an [unknown lifetime](rmm_core::StreamLifetime::Unknown), and on streams under capture, as
/// [`PoolMemoryResource`] says.
///
/// # When to prefer the pool
///
/// Nearly always. A [`PoolMemoryResource`] is faster, with many threads too (the reports in
/// `docs/benchmarks` have both), grows and shrinks, fragments less, and moves small blocks between
/// streams more readily. An arena is for programs that rely on the layout of RMM's: all memory
/// taken once, contiguous, and the small blocks of each stream next to each other.
///
/// It is a handle: clones share one state, which returns the memory to upstream when the last clone
/// is dropped. Any thread may use it. It serves the device that was current when it was built, and
/// default streams of other devices as a [`PoolMemoryResource`] does. Sizes are rounded up to 256
/// bytes; any alignment is honoured.
///
/// A small block costs O(1) in the number of blocks, and time in the number of the stream's
/// superblocks, of which SIMD instructions compare many at once. Metadata lives on the host: 16 KiB
/// per superblock, about 70 bytes per block of the global arena.
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
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let arena = ArenaMemoryResource::builder(CudaMemoryResource::new()).arena_size(64 << 20).build()?;
/// let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
/// let layout = Layout::from_size_align(1000, 256)?;
/// let first = arena.allocate(&stream, layout)?;
/// let second = arena.allocate(&stream, layout)?;
/// assert_eq!(second.0 - first.0, 1024); // in one superblock
/// let elsewhere = arena.allocate(&other, layout)?;
/// assert!(elsewhere.0.abs_diff(first.0) >= 1 << 20); // in another stream's
/// # for (stream, pointer) in [(&stream, first), (&stream, second), (&other, elsewhere)] {
/// #     // SAFETY: allocated above with this layout on this stream.
/// #     unsafe { arena.deallocate(stream, pointer, layout) };
/// # }
/// let statistics = arena.statistics();
/// assert_eq!((statistics.frees, statistics.superblocks), (3, 2)); // each arena keeps one
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::arena_memory_resource")]
pub struct ArenaMemoryResource<U: SyncResource> {
    inner: Arc<Inner<U>>,
}

struct Inner<U: SyncResource> {
    arenas: Arc<Arenas>,
    /// The global arena.
    pool: PoolMemoryResource<U>,
    dump_log: Option<PathBuf>,
}

impl<U: SyncResource> ArenaMemoryResource<U> {
    fn open(pool: PoolMemoryResource<U>, dump_log: Option<PathBuf>) -> Self
    where
        U: 'static,
    {
        let arenas = Arenas::new(pool.base());
        arenas.link.open(Arc::clone(&arenas) as _);
        let inner = Arc::new(Inner { arenas, pool, dump_log });
        let arena: Arc<dyn TrimmableResource> = Arc::clone(&inner) as _;
        inner.pool.announce_as(Arc::downgrade(&arena));
        Self { inner }
    }

    /// The resource that the memory is taken from.
    pub fn upstream(&self) -> &U {
        self.inner.pool.upstream()
    }

    /// Bytes taken from upstream.
    pub fn arena_size(&self) -> u64 {
        self.inner.pool.reserved_bytes()
    }

    /// What the resource has done so far.
    pub fn statistics(&self) -> ArenaStatistics {
        self.inner.arenas.statistics()
    }

    /// A snapshot of the memory: how much is free, and how fragmented. Takes time in the number of
    /// all blocks, and holds all locks meanwhile.
    ///
    /// ```
    /// use rmm_adaptors::ArenaMemoryResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let arena = ArenaMemoryResource::builder(CudaMemoryResource::new()).arena_size(4 << 20).build()?;
    /// let report = arena.report();
    /// assert_eq!((report.largest_free, report.superblocks()), (4 << 20, 0));
    /// assert!(report.to_string().ends_with("fragmentation: 0.0 %"));
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[doc(alias = "dump_memory_log")]
    pub fn report(&self) -> ArenaReport {
        self.inner.arenas.report(|| self.inner.pool.blocks())
    }

    /// Returns unused upstream blocks, until no more than `keep` bytes are reserved or none is
    /// idle. Returns the bytes. Never waits for the device, except as upstream does.
    ///
    /// The arena takes memory again when requests need it, up to its maximum size, but over a
    /// resource such as `cudaMalloc` no longer in one contiguous block. Over virtual memory it
    /// returns pages from anywhere, else only blocks that are idle as a whole.
    ///
    /// ```
    /// use rmm_adaptors::ArenaMemoryResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let arena = ArenaMemoryResource::builder(CudaMemoryResource::new()).arena_size(4 << 20).build()?;
    /// assert_eq!((arena.trim(0), arena.arena_size()), (4 << 20, 0));
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[doc(alias = "defragment")]
    pub fn trim(&self, keep: u64) -> u64 {
        self.inner.trim_to(keep)
    }

    /// As [`trim`](Self::trim), after a wait for pending frees, as
    /// [`PoolMemoryResource::trim_blocking`] does.
    pub fn trim_blocking(&self, keep: u64) -> u64 {
        self.inner.trim_to_blocking(keep)
    }

    /// Changes the maximum size, or lifts it: [`PoolMemoryResource::set_maximum_size`].
    ///
    /// # Errors
    /// As there.
    pub fn set_maximum_size(&self, bytes: impl Into<Option<u64>>) -> Result<(), Error> {
        self.inner.pool.set_maximum_size(bytes)
    }

    /// The identity of the resource in errors and remedies: [`Error::limit_id`].
    pub fn limit_id(&self) -> LimitId {
        self.inner.pool.limit_id()
    }

    /// Makes memory that was freed on captured streams available again, as
    /// [`PoolMemoryResource::release_graph_memory`] does.
    ///
    /// # Safety
    /// As for [`PoolMemoryResource::release_graph_memory`].
    pub unsafe fn release_graph_memory(&self) {
        // SAFETY: the caller's contract; every graph's memory is the global arena's.
        unsafe { self.inner.pool.release_graph_memory() };
    }

    fn allocate_for(
        &self,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        let allocated = self.inner.arenas.allocate(self.upstream(), stream, layout);
        allocated
            .map_err(|error| if error.is_out_of_memory() { self.refused(error) } else { error })
    }

    /// Adds the usage of the arena to an error, and appends a report to the dump log if one is set.
    #[cold]
    fn refused(&self, error: Error) -> Error {
        let report = self.report();
        let reason = error.usage().and_then(|usage| usage.reason);
        let usage = PoolUsage::new(report.arena_size, report.live_bytes)
            .with_largest_free(report.largest_free)
            .with_limit(self.inner.pool.maximum_size())
            .with_reason(reason);
        let error = error.with_usage(usage);
        if let Some(path) = &self.inner.dump_log {
            // A report that cannot be written does not change the error.
            let _unwritten = report.append(path, &error);
        }
        error
    }
}

impl<U: SyncResource> Clone for ArenaMemoryResource<U> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<U: SyncResource> PartialEq for ArenaMemoryResource<U> {
    /// Whether both are handles to one state.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<U: SyncResource> Eq for ArenaMemoryResource<U> {}

impl<U: SyncResource + fmt::Debug> fmt::Debug for ArenaMemoryResource<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ArenaStatistics { live_bytes, reserved_bytes, .. } = self.statistics();
        f.debug_struct("ArenaMemoryResource")
            .field("live_bytes", &live_bytes)
            .field("reserved_bytes", &reserved_bytes)
            .field("upstream", self.upstream())
            .finish()
    }
}

impl<U: SyncResource> fmt::Debug for Inner<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl<U: SyncResource> Drop for Inner<U> {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        self.arenas.link.close();
        // The pool is dropped next and waits for pending frees. While the process exits, neither
        // does anything.
        if !process_is_exiting() {
            self.arenas.dissolve_all(None);
        }
    }
}

// SAFETY: the blocks of a superblock tile it, and each has one owner until it is freed; memory
// without a stream comes from the pool, which returns only memory that no work uses. The address is
// a multiple of the alignment: the block is cut out of a longer one there.
unsafe impl<U: SyncResource> SyncResource for ArenaMemoryResource<U> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_for(None, layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        self.inner.arenas.deallocate(None, pointer, layout);
    }

    fn name(&self) -> &'static str {
        self.inner.pool.name()
    }

    fn provide<'a>(&'a self, request: &mut Request<'a>) {
        request.handle(self).upstream(self.upstream()).properties_from(self.upstream());
        // Whose default streams it serves, and what has refused if it is full.
        request.value(|| self.inner.pool.context()).value(|| self.limit_id());
        request.value(|| self.statistics()).value(|| MayBeWaitedFor).trimmable(&*self.inner);
        request.describe(|description| {
            let statistics = self.statistics();
            description
                .bytes("live", statistics.live_bytes)
                .bytes("reserved", statistics.reserved_bytes)
                .count("arenas", statistics.arenas);
        });
    }
}

// SAFETY: 1. Blocks are disjoint and aligned, as for `SyncResource` above. 2. Stream order: a
// superblock belongs to one stream. A block of it that is allocated again was used by that stream
// only, or by others before a free on that stream, which is ordered after them. A superblock that
// leaves its arena, and a block that another stream frees, belong to the pool, in the order of the
// stream of the free or as memory that is free after the next wait for the device.
unsafe impl<U: SyncResource> Resource for ArenaMemoryResource<U> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_for(Some(stream), layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        self.inner.arenas.deallocate(Some(stream), pointer, layout);
    }

    fn do_try_allocate_now(&self, stream: StreamRef<'_>, layout: Layout) -> Option<DevicePtr> {
        self.inner.arenas.try_allocate_now(stream, layout)
    }

    unsafe fn do_try_deallocate_now(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        layout: Layout,
    ) -> bool {
        self.inner.arenas.try_deallocate_now(stream, pointer, layout)
    }

    fn to_any(&self) -> Option<AnyResource<()>>
    where
        Self: 'static,
    {
        Some(AnyResource::of(self))
    }
}

// SAFETY: the memory is the upstream's.
unsafe impl<P: Property, U: SyncResource + HasProperty<P>> HasProperty<P>
    for ArenaMemoryResource<U>
{
}

impl<P: PropertyWithValue, U: SyncResource + HasPropertyValue<P>> HasPropertyValue<P>
    for ArenaMemoryResource<U>
{
    fn property_value(&self) -> P::Value {
        self.inner.pool.property_value()
    }
}

// SAFETY: the memory is the upstream's.
unsafe impl<U: SyncResource + HasMemoryKind> HasMemoryKind for ArenaMemoryResource<U> {
    const KIND: MemoryKind = U::KIND;
    const CAPS: MemoryCaps = U::CAPS;
}
