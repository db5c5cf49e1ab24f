//! The trace of calls and work, and leaks.
#![forbid(unsafe_code)]

use std::fmt;

use rmm_sys::CuResult;

use crate::model::call_site::CallSite;

/// An event of a run. Addresses are relative to the machine, so equal runs have equal traces.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TraceEntry {
    /// A driver call. The work that it ran follows it.
    #[non_exhaustive]
    Call {
        /// The symbol.
        name: &'static str,
        /// The address that it returned or was passed, if any (`d0+0x200`: device 0, byte 512).
        detail: String,
        /// The code that it returned; `None` while it is running.
        result: Option<CuResult>,
    },
    /// A piece of work that ran.
    #[non_exhaustive]
    Work {
        /// The id of its stream (`cuStreamGetId`).
        stream: u64,
        /// Its position in the stream, counted from 1.
        position: u64,
        /// A description of the work.
        what: String,
    },
}

/// The kind of an object that was not released.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LeakKind {
    /// Memory of any kind, or a registration of host memory.
    Allocation,
    /// A stream.
    Stream,
    /// An event.
    Event,
    /// A memory pool other than a default one.
    Pool,
    /// A range of reserved addresses.
    AddressRange,
    /// A reference to physical memory.
    PhysicalMemory,
    /// A mapping of physical memory at reserved addresses.
    Mapping,
    /// A graph, or an instantiated graph.
    Graph,
    /// A context that the program created.
    Context,
}

/// An object that was created and not released.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Leak {
    /// Its kind.
    pub kind: LeakKind,
    /// A description for messages.
    pub what: String,
    /// Its bytes, for memory; 0 otherwise.
    pub bytes: usize,
    /// Where it was made, if reports have call stacks.
    pub(crate) made_at: Option<CallSite>,
}

/// The description and, if the machine [keeps backtraces](crate::MachineBuilder::backtraces), the
/// call that made the object.
impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        let site = self.made_at.as_ref();
        site.map_or(Ok(()), |site| write!(f, "\n    it was made at{}", site.frames()))
    }
}
