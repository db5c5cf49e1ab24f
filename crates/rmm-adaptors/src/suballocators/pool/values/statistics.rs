//! A pool's counters, and the entries of a map of its blocks.

#![forbid(unsafe_code)]

use rmm_core::{Description, DevicePtr, StreamId};
use rmm_sys::CuStream;

/// A pool's counters, since it was built.
///
/// Of `allocations`, `cached_allocations` are hits of the thread caches, and the others are misses.
/// The pool's driver calls are counted in `upstream_allocations`, `upstream_frees`,
/// `events_recorded`, `event_queries`, `stream_waits` and `host_waits`. Threads that allocate and
/// free while the counters are read may be counted in some of them and not yet in others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// Blocks allocated.
    pub allocations: u64,
    /// Part of `allocations`: served from the thread's cache. The pool's lock is taken only if an
    /// event must be recorded or a span must be fetched first.
    pub cached_allocations: u64,
    /// Requests that missed the caches and the free lists, so that the pool polled, coalesced, grew
    /// or waited. Includes requests that failed, except those above the pool's limit.
    pub slow_allocations: u64,
    /// Requests that failed, each time they were made: an adaptor above may have tried again, or
    /// elsewhere.
    pub failed_allocations: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Frees of addresses that were not allocated, where detected. Each is a bug in the program.
    pub unknown_frees: u64,
    /// Frees with a size or an alignment other than that of the allocation, if the pool [checks
    /// frees](crate::PoolMemoryResourceBuilder::check_frees). Each is a bug in the program.
    pub wrong_frees: u64,
    /// Times that a thread waited for the pool's lock.
    pub lock_waits: u64,
    /// Thread caches with blocks that were emptied into the heap: because memory was short, on
    /// `trim`, because their stream was destroyed, or because another stream took their slot.
    pub flushes: u64,
    /// Freed blocks, and freed parts of spans, that moved from a thread's cache to the heap or to
    /// the transfer cache, because the cache was flushed or full.
    pub flushed_blocks: u64,
    /// [Spans](crate::SpanPolicy) that thread caches hold now.
    pub spans: u64,
    /// Bytes of live blocks. Each request is rounded up to a multiple of 256 bytes, and between
    /// 8 KiB and 1 MiB to a size class, which adds less than a sixteenth.
    pub live_bytes: u64,
    /// Bytes of freed blocks in thread caches and the transfer cache, and of free parts of spans.
    /// While threads contend for the pool's lock, a cached block up to a quarter larger than the
    /// rounded request may serve it; the excess counts here, too.
    pub cached_bytes: u64,
    /// Part of `live_bytes`: blocks that were freed during a capture and stay reserved for graphs.
    pub graph_bytes: u64,
    /// Peak of the sum of `live_bytes` and `cached_bytes`.
    pub peak_live_bytes: u64,
    /// Bytes that the pool holds from upstream.
    pub reserved_bytes: u64,
    /// Part of `reserved_bytes`: addresses without memory while the pool
    /// [sleeps](crate::PoolMemoryResource::sleep).
    pub asleep_bytes: u64,
    /// Peak of `reserved_bytes`.
    pub peak_reserved_bytes: u64,
    /// Bytes of the largest block in a free list: one stream's, or the idle list.
    pub largest_free_bytes: u64,
    /// Bytes of upstream blocks that contain no live block; over virtual memory, of pages or small
    /// groups of pages. The pool can release them and request as many bytes as one block.
    pub whole_free_bytes: u64,
    /// Allocations from upstream that succeeded.
    pub upstream_allocations: u64,
    /// Blocks released to upstream.
    pub upstream_frees: u64,
    /// Events recorded on streams.
    pub events_recorded: u64,
    /// Events and streams queried.
    pub event_queries: u64,
    /// Waits that the pool enqueued on one stream for another (`cuStreamWaitEvent`).
    pub stream_waits: u64,
    /// Waits of the calling thread for the device.
    pub host_waits: u64,
    /// Bytes of host memory for the pool's metadata.
    pub bookkeeping_bytes: u64,
}

impl PoolStatistics {
    /// Adds the bytes to a resource's description, for display.
    pub(crate) fn describe(&self, maximum: Option<u64>, description: &mut Description) {
        description
            .bytes("live", self.live_bytes)
            .bytes("peak live", self.peak_live_bytes)
            .bytes("reserved", self.reserved_bytes);
        if self.asleep_bytes > 0 {
            description.bytes("asleep, without memory", self.asleep_bytes);
        }
        if let Some(maximum) = maximum {
            description.bytes("maximum", maximum);
        }
    }

    /// External fragmentation, from 0 to 1: the share of the free bytes that no single request can
    /// get. 0 if no byte is free.
    ///
    /// Free bytes are those that are neither live nor cached. A single request can get the larger
    /// of `largest_free_bytes` and [`whole_free_bytes`](Self::whole_free_bytes).
    #[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
    pub fn fragmentation(&self) -> f64 {
        let free = self.reserved_bytes.saturating_sub(self.live_bytes + self.cached_bytes);
        if free == 0 {
            return 0.0;
        }
        let largest = self.largest_free_bytes.max(self.whole_free_bytes).min(free);
        1.0 - largest as f64 / free as f64
    }
}

/// A block in a map of a pool's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolBlock {
    /// The number of the block's segment, a contiguous range of addresses.
    pub segment: usize,
    /// The address of the segment.
    pub segment_base: DevicePtr,
    /// Bytes from `segment_base` to the block.
    pub offset: u64,
    /// Bytes of the block.
    pub size: u64,
    /// Whether it is allocated.
    pub is_live: bool,
    /// The stream on which the block was freed. `None` for live blocks, idle blocks, and blocks
    /// whose stream was destroyed.
    pub owner: Option<StreamId>,
    /// The driver's handle of `owner`, as the pool received it. The driver may give the handle to
    /// another stream once `owner` is destroyed.
    pub owner_handle: Option<CuStream>,
}
