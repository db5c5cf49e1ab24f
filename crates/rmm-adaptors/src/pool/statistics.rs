//! What a pool has done so far, and what its memory looks like.

#![forbid(unsafe_code)]

use rmm_core::{Description, DevicePtr, StreamId};

/// A pool's counters, all from one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// Blocks handed out.
    pub allocations: u64,
    /// Part of `allocations`: blocks that the thread's cache had, so that no lock was taken.
    pub cached_allocations: u64,
    /// Requests that no block known to be free could serve, so that the pool had to merge, poll,
    /// grow or wait: also those that it refused.
    pub slow_allocations: u64,
    /// Blocks taken back.
    pub frees: u64,
    /// Frees of addresses that are not those of live blocks, as far as they were found. Each is a
    /// bug in the program.
    pub unknown_frees: u64,
    /// Bytes handed out now, each request rounded up to 256, and above 8 KiB and up to 1 MiB by
    /// less than a sixteenth.
    pub live_bytes: u64,
    /// Bytes of blocks that were freed, and that threads keep at hand.
    pub cached_bytes: u64,
    /// Part of `live_bytes`: bytes that were freed on streams while they were captured, and are
    /// kept for the graphs.
    pub graph_bytes: u64,
    /// The most bytes handed out or kept at hand at once.
    pub peak_live_bytes: u64,
    /// Bytes taken from upstream now.
    pub reserved_bytes: u64,
    /// The most bytes taken from upstream at once.
    pub peak_reserved_bytes: u64,
    /// Bytes of the largest free block: what one stream freed, or nobody uses.
    pub largest_free_bytes: u64,
    /// Requests to upstream that succeeded.
    pub upstream_allocations: u64,
    /// Pieces given back to upstream.
    pub upstream_frees: u64,
    /// Events recorded on streams.
    pub events_recorded: u64,
    /// Events asked whether they are complete.
    pub event_queries: u64,
    /// Times that a stream was made to wait for another.
    pub stream_waits: u64,
    /// Times that the calling thread waited for the device.
    pub host_waits: u64,
    /// Bytes of host memory that the pool's own tables take.
    pub bookkeeping_bytes: u64,
}

impl PoolStatistics {
    /// What a pool with these counters tells of itself.
    pub(super) fn tell(&self, maximum: Option<u64>, description: &mut Description) {
        description
            .bytes("live", self.live_bytes)
            .bytes("peak live", self.peak_live_bytes)
            .bytes("reserved", self.reserved_bytes);
        if let Some(maximum) = maximum {
            description.bytes("maximum", maximum);
        }
    }

    /// How much of what is neither handed out nor kept at hand is not in one block, from 0 to 1: 0
    /// if it is, or if there is none.
    #[expect(clippy::cast_precision_loss, reason = "a share of bytes is no exact number")]
    pub fn fragmentation(&self) -> f64 {
        let free = self.reserved_bytes.saturating_sub(self.live_bytes + self.cached_bytes);
        if free == 0 {
            return 0.0;
        }
        1.0 - self.largest_free_bytes.min(free) as f64 / free as f64
    }
}

/// A block of a pool's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolBlock {
    /// The number of the piece from upstream that it is part of.
    pub segment: usize,
    /// Where that piece starts.
    pub segment_base: DevicePtr,
    /// Bytes from there.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Whether it is handed out.
    pub is_live: bool,
    /// The stream that it was freed on; `None` for live blocks, for those that every stream may
    /// have, and for those of a stream that is gone.
    pub owner: Option<StreamId>,
}
