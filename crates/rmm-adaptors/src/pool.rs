//! A stream-ordered pool.

mod base;
mod builder;
mod caches;
mod captured;
mod close;
mod depot;
mod extend;
mod growth;
mod hash;
mod heap;
mod live;
mod order;
mod refill;
mod release;
mod shared;
mod shortage;
mod slow;
mod state;
mod statistics;

use std::alloc::Layout;
use std::fmt;
use std::sync::Arc;

use rmm_core::{
    AnyResource, DevicePtr, Error, HasMemoryKind, HasProperty, HasPropertyValue, MemoryCaps,
    MemoryKind, PendingBytes, Property, PropertyWithValue, Request, Resource, StreamRef,
    SyncResource,
};

pub(crate) use base::{Base, Giver, Owner, Part};
pub use builder::PoolMemoryResourceBuilder;
pub(crate) use caches::Cached;
pub use growth::{GrowthPolicy, PoolPreset};
pub(crate) use hash::BuildIdHasher;
pub use release::ReleasePolicy;
use shared::Shared;
pub(crate) use shared::padded_size;
pub use statistics::{PoolBlock, PoolStatistics};

/// A pool: takes memory from an upstream resource in large pieces and hands it out in small ones,
/// in stream order, without calling the driver.
///
/// Memory freed on a stream goes to the next request on that stream at once. Another stream gets it
/// when the device is known to be past its last use: because the pool found out, or because the
/// stream already waits for it, or, before memory is refused, because the pool makes it wait. A
/// request is served, in this order, from the stream's own freed memory, from memory that nobody
/// uses, from that of other streams which is found to be done, by growth up to the [soft
/// limit](PoolMemoryResourceBuilder::soft_maximum_size), by making the stream wait for others, by
/// growth up to the [hard limit](PoolMemoryResourceBuilder::maximum_size), after waiting for the
/// device, and by giving unused pieces back for one that fits. Only then is it refused.
///
/// Over an upstream that can be [extended](rmm_core::ExtendableResource), such as virtual memory,
/// the pool is one growing piece: a request gets what it lacks next to free memory, and what is
/// free in the middle goes back. [`PoolPreset`] says what it puts first.
///
/// It is a handle: clones share one pool, which returns its memory to upstream when the last clone
/// is dropped, after a wait for the device. Any thread may use it. A block that was never freed
/// keeps its piece of memory allocated beyond the pool's end, since work may still be using it, and
/// so does one whose last use cannot be waited for. It serves the device that was current when it
/// was built. A stream of another device is refused; memory freed on one is freed after a wait for
/// that stream. Sizes are rounded up to 256 bytes, and from 8 KiB to 1 MiB by less than a sixteenth
/// unless that does not fit; any alignment is honoured.
///
/// Threads keep freed blocks of up to 1 MiB at hand, by stream, so that most calls take no lock.
/// Before a request is served by anything but memory that is known to be free, all of these go back
/// to the pool. A program that forbids itself system calls after its start has to [say
/// so](PoolMemoryResourceBuilder::symmetric_fences) before.
///
/// On a stream that is being captured into a graph (say so with a
/// [`CaptureScope`](rmm_core::CaptureScope)) a request gets memory that is reserved already and
/// that no work uses, without any call to the driver or upstream but to ask whether the stream is
/// captured; if there is none it is refused as [unsupported](rmm_core::ErrorKind::Unsupported).
/// What is freed there is kept for the graph, see
/// [`release_graph_memory`](Self::release_graph_memory). A capture that is not announced is seen
/// only where a request finds no memory known to be free: the graph may then share memory with
/// others. No call of the pool spoils an announced capture, nor another one, but where the pool
/// waits for the device and cannot know: the stream does not order itself with the legacy default
/// stream, and is new to the pool or of an [unknown lifetime](rmm_core::StreamLifetime::Unknown).
///
/// A block of n bytes costs O(1) in the number of blocks; a request that has to grow or wait takes
/// time in their number. Host memory is used for the books only (some 70 bytes a block, and 33 KiB
/// for each stream and thread that keeps blocks at hand), and none is asked for once they have
/// grown to the program's needs. [`trim`](Self::trim) frees what they do not need.
///
/// What is free stays with the pool, but for growth that needs the room, until it is
/// [trimmed](Self::trim), or as a [policy](ReleasePolicy) says.
///
/// Its memory has every property that the upstream's has: a pool over host-accessible memory is
/// host-accessible.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(1000, 256)?;
/// let first = pool.allocate(&stream, layout)?;
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { pool.deallocate(&stream, first, layout) };
/// let second = pool.allocate(&stream, layout)?;
/// assert_eq!(first, second); // at once, although the device may still be at work on it: the stream keeps the two apart
/// # // SAFETY: as above.
/// # unsafe { pool.deallocate(&stream, second, layout) };
/// assert_eq!(pool.statistics().upstream_allocations, 1);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::pool_memory_resource")]
pub struct PoolMemoryResource<U: SyncResource> {
    inner: Arc<Inner<U>>,
}

struct Inner<U: SyncResource> {
    shared: Arc<Shared>,
    upstream: U,
}

impl<U: SyncResource> PoolMemoryResource<U> {
    /// Options for a pool over `upstream`.
    pub fn builder(upstream: U) -> PoolMemoryResourceBuilder<U> {
        PoolMemoryResourceBuilder::new(upstream)
    }

    fn open(shared: Arc<Shared>, upstream: U) -> Self {
        Self { inner: Arc::new(Inner { shared, upstream }) }
    }

    /// The resource that the pool takes its memory from.
    #[doc(alias = "get_upstream_resource")]
    pub fn upstream(&self) -> &U {
        &self.inner.upstream
    }

    /// Bytes taken from upstream now.
    #[doc(alias = "pool_size")]
    pub fn reserved_bytes(&self) -> u64 {
        self.inner.shared.lock().heap.reserved()
    }

    /// What the pool has done so far.
    pub fn statistics(&self) -> PoolStatistics {
        self.inner.shared.statistics()
    }

    /// Gives pieces that nothing uses back to upstream, until no more than `keep` bytes are
    /// reserved or nothing is left to give. Returns the bytes given back. Never waits for the
    /// device, except as upstream does, and with the [deterministic](PoolPreset::Deterministic)
    /// preset, unless a stream may be captured.
    pub fn trim(&self, keep: u64) -> u64 {
        self.inner.shared.trim(&self.inner.upstream, keep)
    }

    /// Gives back what the [policy](ReleasePolicy) does not keep, as far as it is known that the
    /// device does not use it: what calls that free memory do now and then, for a program that
    /// makes none. Returns the bytes given back. Never waits for the device, except as upstream
    /// does.
    pub fn release_unused(&self) -> u64 {
        self.inner.shared.release_all(&self.inner.upstream)
    }

    /// Gives memory that was freed on captured streams to everybody again. Without it that memory
    /// stays allocated, beyond the pool's end. Never calls the driver.
    ///
    /// # Safety
    /// Every launch of a graph that was captured while this pool served its stream has completed,
    /// and this thread knows it; none of them is launched again.
    pub unsafe fn release_graph_memory(&self) {
        self.inner.shared.release_graph_memory();
    }

    /// What was freed on each stream, and is not known to be done, so that other streams cannot
    /// have it yet: the most first. Takes time in the number of streams, and asks the driver
    /// nothing: what the device has reached since it was asked last is told as held.
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{CudaStream, PendingBytes, Resource};
    /// use rmm_resources::CudaMemoryResource;
    /// # use std::alloc::Layout;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(2 << 20, 256)?);
    /// let block = pool.allocate(&stream, layout)?;
    /// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    /// unsafe { pool.deallocate(&stream, block, layout) };
    /// let held = PendingBytes::new(stream.id(), 2 << 20);
    /// assert_eq!(pool.pending_bytes(), [held]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pending_bytes(&self) -> Vec<PendingBytes> {
        let mut state = self.inner.shared.lock();
        self.inner.shared.drain_caches(&mut state);
        state.pending_bytes()
    }

    /// All blocks of the pool, by piece and address: a map of its memory. Takes time and host
    /// memory in their number.
    pub fn blocks(&self) -> Vec<PoolBlock> {
        let mut state = self.inner.shared.lock();
        self.inner.shared.drain_caches(&mut state);
        let block = |block: heap::Block| PoolBlock {
            segment: block.segment.index(),
            segment_base: state.base(block.segment),
            offset: block.offset,
            size: block.size,
            is_live: block.free_in.is_none(),
            owner: block.free_in.and_then(|list| state.order.stream(list)),
        };
        state.heap.blocks().map(block).collect()
    }

    /// The most bytes that the pool may reserve, if a limit was set.
    pub fn maximum_size(&self) -> Option<u64> {
        Some(self.inner.shared.growth.hard_limit).filter(|&limit| limit != u64::MAX)
    }
}

impl<U: SyncResource> Clone for PoolMemoryResource<U> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<U: SyncResource> PartialEq for PoolMemoryResource<U> {
    /// Whether both are handles to one pool.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<U: SyncResource> Eq for PoolMemoryResource<U> {}

impl<U: SyncResource + fmt::Debug> fmt::Debug for PoolMemoryResource<U> {
    /// Of all that it holds, what fits a line: containers show the pool that they are in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolStatistics { live_bytes, reserved_bytes, .. } = self.statistics();
        f.debug_struct("PoolMemoryResource")
            .field("live_bytes", &live_bytes)
            .field("reserved_bytes", &reserved_bytes)
            .field("upstream", &self.inner.upstream)
            .finish()
    }
}

impl<U: SyncResource> Drop for Inner<U> {
    fn drop(&mut self) {
        self.shared.close(&self.upstream);
    }
}

// SAFETY: the heap's blocks tile the memory from upstream, each is handed out to one owner until it
// is freed, and only clean blocks, which no work uses, are handed out here. The address is rounded
// up to the alignment inside a block with room for it.
unsafe impl<U: SyncResource> SyncResource for PoolMemoryResource<U> {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        if layout.size() == 0 {
            return Ok(DevicePtr::NULL);
        }
        self.inner.shared.allocate(&self.inner.upstream, None, layout)
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        if layout.size() > 0 {
            self.inner.shared.deallocate(None, pointer, layout);
            self.inner.shared.release_if_due(&self.inner.upstream);
        }
    }

    fn name(&self) -> &'static str {
        self.inner.shared.name
    }

    fn provide<'a>(&'a self, request: &mut Request<'a>) {
        let upstream = &self.inner.upstream;
        request.handle(self).upstream(upstream).properties_from(upstream).describe(|description| {
            self.statistics().tell(self.maximum_size(), description);
        });
    }
}

// SAFETY: as above, and a block that was freed on one stream is handed to another only as
// `Order::covered` allows: when the work before the free is known to be complete, or the other
// stream is ordered after it.
unsafe impl<U: SyncResource> Resource for PoolMemoryResource<U> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        if layout.size() == 0 {
            return Ok(DevicePtr::NULL);
        }
        self.inner.shared.allocate(&self.inner.upstream, Some(stream), layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if layout.size() > 0 {
            self.inner.shared.deallocate(Some(stream), pointer, layout);
            self.inner.shared.release_if_due(&self.inner.upstream);
        }
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
    for PoolMemoryResource<U>
{
}

impl<P: PropertyWithValue, U: SyncResource + HasPropertyValue<P>> HasPropertyValue<P>
    for PoolMemoryResource<U>
{
    fn property_value(&self) -> P::Value {
        self.inner.upstream.property_value()
    }
}

// SAFETY: the memory is the upstream's.
unsafe impl<U: SyncResource + HasMemoryKind> HasMemoryKind for PoolMemoryResource<U> {
    const KIND: MemoryKind = U::KIND;
    const CAPS: MemoryCaps = U::CAPS;
}
