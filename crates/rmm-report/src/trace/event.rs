//! The events of a trace, and limits on their number.

/// The most bytes in one line of a log, its line end not counted: 16 KiB. RMM's own lines are under
/// 100; a site of many frames is longer.
pub const MAX_LINE: usize = 16 << 10;

/// The most events in one log: 67,108,864, which is 2 GiB of [`Event`]s.
pub const MAX_EVENTS: usize = 1 << 26;

/// RMM aligns every allocation to this many bytes, so a replay needs at least this much for a block
/// that is not empty.
pub const ALIGNMENT: u64 = 256;

/// One call of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The line of the (decompressed) file, from 1.
    pub line: u64,
    /// The calling thread, an index into [`Trace::threads`](super::Trace::threads).
    pub thread: u32,
    /// The stream, an index into [`Trace::streams`](super::Trace::streams).
    pub stream: u32,
    /// What was called.
    pub action: Action,
}

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An allocation that succeeded when it was recorded.
    Allocate {
        /// The slot that the block has until it is freed, below
        /// [`Trace::blocks`](super::Trace::blocks).
        block: u32,
        /// Bytes.
        size: u64,
    },
    /// A free of a live block.
    Free {
        /// The slot of the block.
        block: u32,
        /// Bytes, the same as at the allocation.
        size: u64,
    },
    /// An allocation that failed when it was recorded.
    AllocateFailure {
        /// Bytes.
        size: u64,
    },
}
