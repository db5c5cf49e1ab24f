//! Counters of an arena resource.

#![forbid(unsafe_code)]

/// Counters of an [`ArenaMemoryResource`](super::ArenaMemoryResource).
///
/// The counts of allocations, frees and live bytes are all from one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ArenaStatistics {
    /// Allocations so far.
    pub allocations: u64,
    /// Allocations that missed the free lists of the stream's arena and of the global arena (slow
    /// path).
    pub slow_allocations: u64,
    /// Frees so far.
    pub frees: u64,
    /// Frees of addresses that are not live blocks: bugs in the program.
    pub unknown_frees: u64,
    /// Bytes of live blocks, each rounded up to 256.
    pub live_bytes: u64,
    /// Part of `live_bytes`: freed during capture, reserved for graphs.
    pub graph_bytes: u64,
    /// Bytes allocated from upstream: the arena's size.
    pub reserved_bytes: u64,
    /// Arenas of streams.
    pub arenas: u64,
    /// Superblocks of all these arenas.
    pub superblocks: u64,
    /// Free bytes in superblocks. Each arena's are reserved for its stream, until another stream
    /// runs out of memory.
    pub superblock_free_bytes: u64,
    /// Events recorded.
    pub events_recorded: u64,
    /// Event queries.
    pub event_queries: u64,
    /// Waits of a stream for another stream's event.
    pub stream_waits: u64,
    /// Waits of the host for the device.
    pub host_waits: u64,
}
