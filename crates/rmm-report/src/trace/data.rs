//! A trace as a whole.

use std::fmt;
use std::path::PathBuf;

use super::columns::Columns;
use super::event::Event;
use crate::format;

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
    /// The most bytes live at once, each size rounded up to [`ALIGNMENT`](super::ALIGNMENT).
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
    /// Whether the program goes on after the last event: the log ends in the middle of a line,
    /// which is left out, because the program was killed or still runs; or this is a snapshot.
    pub ends_early: bool,
    /// What the allocator of a snapshot took from the driver and returned; empty for a log.
    pub growth: Vec<Growth>,
    /// The bytes that the allocator of a snapshot held before the first event.
    pub reserved_before: u64,
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

/// Memory that the allocator of a snapshot took from the driver, or returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The event before which it happened; the number of events if it was after the last.
    pub event: usize,
    /// Nanoseconds since the first event, if known.
    pub time: Option<u64>,
    /// Where the memory is.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether it was taken; else it was returned.
    pub is_taken: bool,
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
