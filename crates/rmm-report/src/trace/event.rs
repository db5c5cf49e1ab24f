//! The data of a trace: events, and limits on their number.

use std::fmt;
use std::path::PathBuf;

use super::columns::Columns;
use crate::format;

/// The most bytes in one line of a log, its line end not counted: 16 KiB. RMM's own lines are under
/// 100; a site of many frames is longer.
pub const MAX_LINE: usize = 16 << 10;

/// The most events in one log: 67,108,864, which is 2 GiB of [`Event`]s.
pub const MAX_EVENTS: usize = 1 << 26;

/// RMM aligns every allocation to this many bytes, so a replay needs at least this much for a block
/// that is not empty.
pub const ALIGNMENT: u64 = 256;

/// A log, read and checked: every free names a block that is live, with the size it was allocated
/// with.
///
/// A log may begin in the middle of a program. Then blocks are freed that it did not allocate; they
/// are in [`before`](Self::before), and every figure here takes them as live from the start.
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
    /// The index of the first event after which `peak_live_aligned` bytes are live; 0 as well if
    /// that many were live only before the first event.
    pub peak_event: usize,
    /// The blocks that were live before the first event, in the order in which they became known.
    pub before: Vec<Before>,
    /// The tags, in order of appearance; the first is empty, for "none".
    pub tags: Vec<String>,
    /// The call sites, in order of appearance; the first is empty, for "unknown". A site is
    /// `file:line function`; with several frames the innermost comes first and ` < ` stands between
    /// them.
    pub sites: Vec<String>,
    /// The ordinals of devices, in order of appearance; the first, [`NO_DEVICE`], is for "unknown".
    pub devices: Vec<u32>,
    /// Whether the log's end mark is there: the program closed its log.
    ///
    /// The mark is a last row that says that a request of 0 bytes failed, with a null pointer:
    /// RMM's reader takes it and its replay passes over it. It is no event.
    pub ended: bool,
    /// Whether the log ends in the middle of a line, which is left out: its program was killed, or
    /// still runs.
    pub ends_early: bool,
    pub(super) columns: Columns,
}

/// What [`Trace::devices`] holds where the device is unknown.
pub const NO_DEVICE: u32 = u32::MAX;

/// A block that was live before the first event of a log: the log frees it, or a snapshot has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// The slot that the block has until it is freed, below [`Trace::blocks`].
    pub block: u32,
    /// Bytes.
    pub size: u64,
    /// The recorded address.
    pub address: u64,
    /// The stream that it was allocated on, where a snapshot says so, else the one that freed it;
    /// an index into [`Trace::streams`].
    pub stream: u32,
    /// An index into [`Trace::tags`].
    pub tag: u32,
    /// Where it was allocated, an index into [`Trace::sites`].
    pub site: u32,
    /// An index into [`Trace::devices`].
    pub device: u32,
}

impl Trace {
    /// The time of an event, in nanoseconds since the first; it never decreases. None if the log
    /// has a time that cannot be read, or there is no such event.
    pub fn time(&self, event: usize) -> Option<u64> {
        self.columns.time(event)
    }

    /// Whether the times of the events are known.
    pub fn has_times(&self) -> bool {
        self.columns.has_times()
    }

    /// The address that was recorded for an event; 0 for a request that failed.
    pub fn address(&self, event: usize) -> u64 {
        self.columns.address(event)
    }

    /// The tag of an event, an index into [`Trace::tags`].
    pub fn tag(&self, event: usize) -> u32 {
        self.columns.tag(event)
    }

    /// Where an event was called, an index into [`Trace::sites`].
    pub fn site(&self, event: usize) -> u32 {
        self.columns.site(event)
    }

    /// The device of an event, an index into [`Trace::devices`].
    pub fn device(&self, event: usize) -> u32 {
        self.columns.device(event)
    }
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
        )?;
        match self.before.len() as u64 {
            0 => Ok(()),
            before => write!(f, ", {} live before the log", format::count(before, "block")),
        }
    }
}
