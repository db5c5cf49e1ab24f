//! A pool's counters, and a map of its blocks.

#![forbid(unsafe_code)]

use rmm_core::{Description, DevicePtr, StreamId};
use rmm_sys::CuStream;

/// A pool's counters, all from one moment.
///
/// Its hits are `cached_allocations`, and its misses the rest of `allocations`. What it calls the
/// driver for is in `upstream_allocations`, `upstream_frees`, `events_recorded`, `event_queries`,
/// `stream_waits` and `host_waits`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// Blocks allocated.
    pub allocations: u64,
    /// Part of `allocations`: served by the thread's cache, without the pool's lock unless an event
    /// or a span had to be brought first.
    pub cached_allocations: u64,
    /// Requests that missed the free lists, so that the pool had to poll, coalesce, grow or wait;
    /// refused ones count, too.
    pub slow_allocations: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Frees of addresses that were not live, as far as they were detected. Each is a bug in the
    /// program.
    pub unknown_frees: u64,
    /// Frees with a size or an alignment other than that of the allocation, if the pool [checks
    /// frees](crate::PoolMemoryResourceBuilder::check_frees). Each is a bug in the program.
    pub wrong_frees: u64,
    /// Times that a thread found the pool's lock taken, and waited for it.
    pub lock_waits: u64,
    /// Caches of threads that were emptied into the heap: memory was short or is trimmed, or their
    /// stream has ended or another one got their place.
    pub flushes: u64,
    /// Freed blocks, and freed parts of spans, that left a thread's cache for the heap or for other
    /// threads: in flushes, or as it was full.
    pub flushed_blocks: u64,
    /// [Spans](crate::SpanPolicy) that caches of threads have now.
    pub spans: u64,
    /// Bytes allocated now. Each request is rounded up to 256, and from 8 KiB to 1 MiB by less than
    /// a sixteenth.
    pub live_bytes: u64,
    /// Bytes of freed blocks in thread caches and the transfer cache, and of the free parts of
    /// spans; also what a block has beyond a request's rounded size, up to a quarter, where threads
    /// wait for each other.
    pub cached_bytes: u64,
    /// Part of `live_bytes`: freed during a capture, reserved for graphs.
    pub graph_bytes: u64,
    /// Peak of `live_bytes` and `cached_bytes` together.
    pub peak_live_bytes: u64,
    /// Bytes allocated from upstream now.
    pub reserved_bytes: u64,
    /// Part of `reserved_bytes`: has addresses and no memory, since the pool
    /// [sleeps](crate::PoolMemoryResource::sleep).
    pub asleep_bytes: u64,
    /// Peak of `reserved_bytes`.
    pub peak_reserved_bytes: u64,
    /// Bytes of the largest free block: freed by one stream, or idle.
    pub largest_free_bytes: u64,
    /// Bytes of the upstream blocks (of virtual memory: pages, or a few) that are free as a whole.
    /// The pool can return them, and request as many bytes in one block.
    pub whole_free_bytes: u64,
    /// Allocations from upstream that succeeded.
    pub upstream_allocations: u64,
    /// Blocks released to upstream.
    pub upstream_frees: u64,
    /// Events recorded on streams.
    pub events_recorded: u64,
    /// Events and streams queried.
    pub event_queries: u64,
    /// Waits of one stream for another that the pool enqueued.
    pub stream_waits: u64,
    /// Waits of the calling thread for the device.
    pub host_waits: u64,
    /// Host bytes of the pool's metadata.
    pub bookkeeping_bytes: u64,
}

impl PoolStatistics {
    /// Describes a pool with these counters.
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

    /// External fragmentation, from 0 to 1: the share of the free bytes (neither live nor cached)
    /// that one request cannot have. It can have the largest free block, or else the [upstream
    /// blocks that are free as a whole](Self::whole_free_bytes). 0 if no byte is free.
    #[expect(clippy::cast_precision_loss, reason = "a share of bytes is no exact number")]
    pub fn fragmentation(&self) -> f64 {
        let free = self.reserved_bytes.saturating_sub(self.live_bytes + self.cached_bytes);
        if free == 0 {
            return 0.0;
        }
        let largest = self.largest_free_bytes.max(self.whole_free_bytes).min(free);
        1.0 - largest as f64 / free as f64
    }
}

/// A block of a pool's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolBlock {
    /// The number of its segment.
    pub segment: usize,
    /// The address at which that segment starts.
    pub segment_base: DevicePtr,
    /// Bytes from there to the block.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Whether it is allocated.
    pub is_live: bool,
    /// The stream that it was freed on; `None` for live blocks, idle blocks, and blocks of a stream
    /// that was destroyed.
    pub owner: Option<StreamId>,
    /// The driver's handle of that stream, as the pool got it: another stream may have it once that
    /// is destroyed.
    pub owner_handle: Option<CuStream>,
}
