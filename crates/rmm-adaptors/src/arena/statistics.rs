//! What an arena resource has done so far.

#![forbid(unsafe_code)]

/// An arena resource's counters.
///
/// The counts of allocations, frees and live bytes are all from one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ArenaStatistics {
    /// Blocks handed out.
    pub allocations: u64,
    /// Requests that neither the stream's superblocks nor memory known to be free would serve.
    pub slow_allocations: u64,
    /// Blocks taken back.
    pub frees: u64,
    /// Frees of addresses that are not those of live blocks. Each is a bug in the program.
    pub unknown_frees: u64,
    /// Bytes handed out now, each request rounded up to 256.
    pub live_bytes: u64,
    /// Of these, bytes that were freed on streams while they were captured, and are kept for the
    /// graphs.
    pub graph_bytes: u64,
    /// Bytes taken from upstream: the arena's size.
    pub reserved_bytes: u64,
    /// Arenas of streams now.
    pub arenas: u64,
    /// Superblocks that these hold.
    pub superblocks: u64,
    /// Bytes that are free in superblocks: each arena's are its stream's alone until somebody else
    /// lacks memory.
    pub superblock_free_bytes: u64,
    /// Events recorded on streams.
    pub events_recorded: u64,
    /// Events asked whether they are complete.
    pub event_queries: u64,
    /// Times that a stream was made to wait for another.
    pub stream_waits: u64,
    /// Times that the calling thread waited for the device.
    pub host_waits: u64,
}
