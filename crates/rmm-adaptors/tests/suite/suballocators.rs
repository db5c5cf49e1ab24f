//! Constructors of every suballocator, over upstreams that can fail one allocation.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource, PoolMemoryResource,
    PoolPreset,
};
use rmm_core::{
    AnyResource, DeviceAccessible, DevicePtr, Error, HasProperty, Introspect, Resource, StreamRef,
    SynchronousResource,
};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};

use crate::harness::Allocator;
use crate::programs::MOST_GRANULES;

/// Bytes of a granule, the unit in which steps of a program allocate.
pub(crate) const GRANULE: usize = 1 << 10;
/// The least bytes that a suballocator of these tests gets.
pub(crate) const LEAST: u64 = 2 << 20;

/// The upstream of the suballocators: plain driver allocations, or a stream-ordered pool of the
/// driver.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    inner: AnyResource,
    allocations: Arc<AtomicU64>,
    /// Which allocation fails, counted from 1; 0 is none.
    failing_allocation: u64,
}

impl Upstream {
    /// An upstream that never fails.
    pub(crate) fn new(is_stream_ordered: bool) -> Self {
        Self::failing(0, is_stream_ordered)
    }

    /// An upstream whose allocation of this number fails, and no other.
    pub(crate) fn failing(number: u64, is_stream_ordered: bool) -> Self {
        let inner = if is_stream_ordered {
            AnyResource::new(CudaAsyncMemoryResource::new().expect("a pool of the driver"))
        } else {
            AnyResource::new(CudaMemoryResource::new())
        };
        Self { inner, allocations: Arc::default(), failing_allocation: number }
    }

    /// Whether the allocation that fails has been requested.
    pub(crate) fn has_failed(&self) -> bool {
        self.failing_allocation > 0
            && self.allocations.load(Ordering::Relaxed) >= self.failing_allocation
    }

    fn ask(&self, layout: Layout) -> Result<(), Error> {
        if self.allocations.fetch_add(1, Ordering::Relaxed) + 1 == self.failing_allocation {
            return Err(Error::out_of_memory("failing").with_layout(layout));
        }
        Ok(())
    }
}

impl PartialEq for Upstream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.allocations, &other.allocations)
    }
}

// SAFETY: its memory is that of the device.
unsafe impl HasProperty<DeviceAccessible> for Upstream {}

// SAFETY: every call goes to a resource that keeps the contract, except for the allocation that
// fails.
unsafe impl SynchronousResource for Upstream {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.ask(layout)?;
        self.inner.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.inner.deallocate_sync(pointer, layout) };
    }

    fn name(&self) -> &'static str {
        "failing"
    }
}

// SAFETY: every call goes to a resource that keeps the contract, except for the allocation that
// fails.
unsafe impl Resource for Upstream {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.ask(layout)?;
        self.inner.allocate(stream, layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.inner.deallocate(stream, pointer, layout) };
    }
}

type Pool = PoolMemoryResource;
type Blocks = FixedSizeMemoryResource;
type Bins = BinningMemoryResource;

/// Constructs a suballocator that allocates at most this many bytes, a multiple of [`LEAST`], from
/// upstream.
pub(crate) type Make<R> = fn(Upstream, u64) -> Result<R, Error>;

fn with(preset: PoolPreset, upstream: Upstream, limit: u64) -> Result<Pool, Error> {
    PoolMemoryResource::builder(upstream).preset(preset).maximum_size(limit).build()
}

pub(crate) fn pool(upstream: Upstream, limit: u64) -> Result<Pool, Error> {
    with(PoolPreset::Throughput, upstream, limit)
}

pub(crate) fn compact_pool(upstream: Upstream, limit: u64) -> Result<Pool, Error> {
    with(PoolPreset::Compact, upstream, limit)
}

pub(crate) fn deterministic_pool(upstream: Upstream, limit: u64) -> Result<Pool, Error> {
    with(PoolPreset::Deterministic, upstream, limit)
}

/// Over virtual memory instead of the given upstream.
pub(crate) fn virtual_pool(_: Upstream, limit: u64) -> Result<PoolMemoryResource, Error> {
    let upstream = VirtualMemoryResource::new()?;
    PoolMemoryResource::builder(upstream).maximum_size(limit).build()
}

pub(crate) fn arena(upstream: Upstream, limit: u64) -> Result<ArenaMemoryResource, Error> {
    ArenaMemoryResource::builder(upstream).arena_size(limit).build()
}

/// Blocks that fit the largest request of a program.
pub(crate) fn fixed_size(upstream: Upstream, limit: u64) -> Result<Blocks, Error> {
    let builder =
        FixedSizeMemoryResource::builder(upstream).block_size((MOST_GRANULES * GRANULE) as u64);
    builder.blocks(2).maximum_size(limit).build()
}

/// Bins for the two most frequent sizes of programs, over a pool.
pub(crate) fn binning(upstream: Upstream, limit: u64) -> Result<Bins, Error> {
    let pool = pool(upstream, limit)?;
    let bins = [8, 64].into_iter().try_fold(
        BinningMemoryResource::builder(pool.clone()),
        |bins, granules| {
            let blocks = FixedSizeMemoryResource::builder(pool.clone());
            bins.bin_of(
                (granules * GRANULE) as u64,
                blocks.block_size((granules * GRANULE) as u64).blocks(4).build()?,
            )
        },
    );
    Ok(bins?.build())
}

impl Allocator for Blocks {
    fn trim(&self) -> u64 {
        FixedSizeMemoryResource::trim(self, 0)
    }

    fn reserved(&self) -> u64 {
        self.statistics().reserved_bytes
    }

    crate::harness::waits_and_live_from_statistics!();
}

fn pool_below(bins: &Bins) -> &Pool {
    bins.upstream().find().expect("they are over a pool")
}

fn blocks_of(bins: &Bins) -> impl Iterator<Item = &Blocks> {
    bins.bins().map(|(_, bin)| bin.find().expect("it has blocks of one size"))
}

impl Allocator for Bins {
    fn trim(&self) -> u64 {
        for bin in blocks_of(self) {
            Allocator::trim(bin);
        }
        pool_below(self).trim(0)
    }

    fn reserved(&self) -> u64 {
        pool_below(self).reserved_bytes()
    }

    fn waits(&self) -> u64 {
        blocks_of(self).map(Allocator::waits).sum::<u64>() + pool_below(self).waits()
    }

    fn live_and_unknown(&self) -> (u64, u64) {
        let upstream = pool_below(self).statistics();
        let mut sums = (upstream.live_bytes, upstream.unknown_frees);
        for bin in blocks_of(self) {
            let statistics = bin.statistics();
            // The memory of a bin is live in the upstream pool.
            sums.0 = sums.0 - statistics.reserved_bytes + statistics.live_bytes;
            sums.1 += statistics.unknown_frees;
        }
        sums
    }
}
