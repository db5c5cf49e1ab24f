//! What a machine can tell about a run: the trace of calls and work, and what was left behind.
#![forbid(unsafe_code)]

use rmm_sys::CuResult;

/// One thing that happened, in order. Places are relative to the machine, so equal runs have equal
/// traces.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TraceEntry {
    /// A driver call. What it made run is listed after it.
    #[non_exhaustive]
    Call {
        /// The symbol.
        name: &'static str,
        /// What it gave or was given, if that is worth telling (`d0+0x200`: device 0, byte 512).
        detail: String,
        /// What it returned; `None` while it is under way.
        result: Option<CuResult>,
    },
    /// A piece of work that ran.
    #[non_exhaustive]
    Work {
        /// The id of its stream, as `cuStreamGetId` tells it.
        stream: u64,
        /// Its place in the stream, from 1 on.
        position: u64,
        /// What it was.
        what: String,
    },
}

/// What kind of thing was not released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LeakKind {
    /// Memory, of whatever kind, or a registration of host memory.
    Allocation,
    /// A stream.
    Stream,
    /// An event.
    Event,
    /// A memory pool other than the devices' own.
    Pool,
    /// A range of reserved addresses.
    AddressRange,
    /// A reference to physical memory.
    PhysicalMemory,
    /// Physical memory at reserved addresses.
    Mapping,
    /// A graph, or one made ready to be launched.
    Graph,
}

/// Something that was made and not released.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Leak {
    /// What it is.
    pub kind: LeakKind,
    /// Which one, for people.
    pub what: String,
    /// Its bytes, for memory; 0 otherwise.
    pub bytes: usize,
}
