//! Every suballocator, over upstreams whose calls can be refused one at a time.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource, PoolMemoryResource,
    PoolPreset,
};
use rmm_core::{AnyResource, DevicePtr, Error, Resource, StreamRef, SyncResource};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};

use crate::program::MOST_GRANULES;
use crate::world::Allocator;

/// Bytes of what a step calls a granule.
pub(crate) const GRANULE: usize = 1 << 10;
/// Bytes that a suballocator here is given at least.
pub(crate) const LEAST: usize = 2 << 20;

/// Where suballocators take their memory from: the driver's plain allocations, or one of its
/// stream-ordered pools.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    inner: AnyResource,
    allocations: Arc<AtomicU64>,
    /// The number of the allocation that is refused, counted from 1; 0 is none.
    refused: u64,
}

impl Upstream {
    /// One that refuses nothing.
    pub(crate) fn new(is_stream_ordered: bool) -> Self {
        Self::refusing(0, is_stream_ordered)
    }

    /// One that refuses its allocation of this number, and only that one.
    pub(crate) fn refusing(number: u64, is_stream_ordered: bool) -> Self {
        let inner = if is_stream_ordered {
            AnyResource::new(CudaAsyncMemoryResource::new().expect("a pool of the driver"))
        } else {
            AnyResource::new(CudaMemoryResource::new())
        };
        Self { inner, allocations: Arc::default(), refused: number }
    }

    /// Whether the allocation that it refuses has been asked for.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused > 0 && self.allocations.load(Ordering::Relaxed) >= self.refused
    }

    fn ask(&self, layout: Layout) -> Result<(), Error> {
        if self.allocations.fetch_add(1, Ordering::Relaxed) + 1 == self.refused {
            return Err(Error::out_of_memory("refusing").with_layout(layout));
        }
        Ok(())
    }
}

// SAFETY: every call goes to a resource that keeps the contract, but for allocations that fail.
unsafe impl SyncResource for Upstream {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.ask(layout)?;
        self.inner.allocate_sync(layout)
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.inner.deallocate_sync(pointer, layout) };
    }

    fn name(&self) -> &'static str {
        "refusing"
    }
}

// SAFETY: as above.
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

type Pool = PoolMemoryResource<Upstream>;
type Blocks<U> = FixedSizeMemoryResource<U>;
type Bins = BinningMemoryResource<Pool, Blocks<Pool>>;

/// A suballocator that takes at most so many bytes, a multiple of [`LEAST`], from upstream.
pub(crate) type Make<R> = fn(Upstream, usize) -> Result<R, Error>;

fn with(preset: PoolPreset, upstream: Upstream, limit: usize) -> Result<Pool, Error> {
    PoolMemoryResource::builder(upstream).preset(preset).maximum_size(limit).build()
}

pub(crate) fn pool(upstream: Upstream, limit: usize) -> Result<Pool, Error> {
    with(PoolPreset::Throughput, upstream, limit)
}

pub(crate) fn compact_pool(upstream: Upstream, limit: usize) -> Result<Pool, Error> {
    with(PoolPreset::Compact, upstream, limit)
}

pub(crate) fn deterministic_pool(upstream: Upstream, limit: usize) -> Result<Pool, Error> {
    with(PoolPreset::Deterministic, upstream, limit)
}

/// It has an upstream of its own.
pub(crate) fn virtual_pool(
    _: Upstream,
    limit: usize,
) -> Result<PoolMemoryResource<VirtualMemoryResource>, Error> {
    let upstream = VirtualMemoryResource::new()?;
    PoolMemoryResource::builder(upstream).maximum_size(limit).build()
}

pub(crate) fn arena(
    upstream: Upstream,
    limit: usize,
) -> Result<ArenaMemoryResource<Upstream>, Error> {
    ArenaMemoryResource::builder(upstream).arena_size(limit).build()
}

/// Blocks for the largest request of a program.
pub(crate) fn fixed_size(upstream: Upstream, limit: usize) -> Result<Blocks<Upstream>, Error> {
    let builder = FixedSizeMemoryResource::builder(upstream).block_size(MOST_GRANULES * GRANULE);
    builder.blocks(2).maximum_size(limit).build()
}

/// Bins for the two sizes that programs ask for most, over a pool.
pub(crate) fn binning(upstream: Upstream, limit: usize) -> Result<Bins, Error> {
    let pool = pool(upstream, limit)?;
    let bins = [8, 64].into_iter().try_fold(
        BinningMemoryResource::builder_of(pool.clone()),
        |bins, granules| {
            let blocks = FixedSizeMemoryResource::builder(pool.clone());
            bins.bin_of(
                granules * GRANULE,
                blocks.block_size(granules * GRANULE).blocks(4).build()?,
            )
        },
    );
    Ok(bins?.build())
}

impl<U: SyncResource> Allocator for Blocks<U> {
    fn trim(&self) -> u64 {
        FixedSizeMemoryResource::trim(self, 0)
    }

    fn reserved(&self) -> u64 {
        self.statistics().reserved_bytes
    }

    crate::world::as_statistics_tell!();
}

impl Allocator for Bins {
    fn trim(&self) -> u64 {
        for (_, bin) in self.bins() {
            bin.trim(0);
        }
        self.upstream().trim(0)
    }

    fn reserved(&self) -> u64 {
        self.upstream().reserved_bytes()
    }

    fn waits(&self) -> u64 {
        self.bins().map(|(_, bin)| bin.waits()).sum::<u64>() + self.upstream().waits()
    }

    fn books(&self) -> (u64, u64) {
        let upstream = self.upstream().statistics();
        let mut sums = (upstream.live_bytes, upstream.unknown_frees);
        for (_, bin) in self.bins() {
            let statistics = bin.statistics();
            // What a bin has taken is live upstream.
            sums.0 = sums.0 - statistics.reserved_bytes + statistics.live_bytes;
            sums.1 += statistics.unknown_frees;
        }
        sums
    }
}
