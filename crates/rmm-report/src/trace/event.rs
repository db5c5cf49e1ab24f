//! The data of a trace: events, and limits on their number.

use std::fmt;
use std::path::PathBuf;

use crate::format;

/// The most bytes in one line of a log, its line end not counted. RMM's own lines are under 100.
pub const MAX_LINE: usize = 1024;

/// The most events in one log: 67,108,864, which is 2 GiB of [`Event`]s.
pub const MAX_EVENTS: usize = 1 << 26;

/// RMM aligns every allocation to this many bytes, so a replay needs at least this much for a block
/// that is not empty.
pub const ALIGNMENT: u64 = 256;

/// A log, read and checked: every free names a block that is live, with the size it was allocated
/// with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The file, or the name given to [`read_from`](super::read_from).
    pub path: PathBuf,
    /// The calls in the order in which they were logged; never empty.
    pub events: Vec<Event>,
    /// The recorded thread ids, in order of appearance; [`Event::thread`] is an index into them.
    pub threads: Vec<u64>,
    /// The recorded stream handles, in order of appearance; [`Event::stream`] is an index into
    /// them.
    pub streams: Vec<u64>,
    /// The most blocks live at once; every block index is below it.
    pub blocks: u32,
    /// The most bytes live at once, of the sizes as they were asked for.
    pub peak_live: u64,
    /// The most bytes live at once, each size rounded up to [`ALIGNMENT`].
    pub peak_live_aligned: u64,
    /// The index of the first event after which `peak_live_aligned` bytes are live.
    pub peak_event: usize,
    /// Whether the log ends in the middle of a line, which is left out: its program was killed, or
    /// still runs.
    pub ends_early: bool,
}

/// One call of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The line of the (decompressed) file, from 1.
    pub line: u64,
    /// The calling thread, an index into [`Trace::threads`].
    pub thread: u32,
    /// The stream, an index into [`Trace::streams`].
    pub stream: u32,
    /// What was called.
    pub action: Action,
}

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An allocation that succeeded when it was recorded.
    Allocate {
        /// The slot that the block has until it is freed, below [`Trace::blocks`].
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

/// One line for a person: the file, and how much is in it.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}, {}, {}, {} live at most, peak live {}",
            self.path.display(),
            format::count(self.events.len() as u64, "event"),
            format::count(self.threads.len() as u64, "thread"),
            format::count(self.streams.len() as u64, "stream"),
            format::count(u64::from(self.blocks), "block"),
            format::bytes(self.peak_live_aligned),
        )
    }
}
