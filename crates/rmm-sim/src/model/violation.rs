//! What the checks report: which rule was broken, by which two accesses, and the edge of order that
//! is missing.
#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::Arc;

use crate::model::call_site;
use crate::model::operation::Operation;
use crate::model::points::Point;

/// Which rule was broken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ViolationKind {
    /// Two accesses to the same bytes, of which one writes, and nothing orders them.
    Race,
    /// Memory was used on a stream that is not ordered after its allocation.
    UseBeforeAllocation,
    /// An allocator handed memory out to a stream (or to everybody) that an earlier use may still
    /// be at work on.
    HandedOutInUse,
    /// An allocator handed out memory that it had handed out already and not taken back.
    HandedOutTwice,
    /// Memory was freed, unmapped, or given back to the driver, while a use that is not ordered
    /// before may still be at work on it.
    ReturnedInUse,
    /// Memory was given back while parts of it were still handed out.
    ReturnedWhileHandedOut,
    /// Work came to memory that had been freed or unmapped.
    UseAfterFree,
    /// An access reached over the end of an allocation, between two, or to reserved addresses at
    /// which nothing is mapped.
    OutOfBounds,
    /// Work of a device named mapped memory that the device has no right to use like that, or lost
    /// the right before it ran; or a kernel named memory of another device to which its own was
    /// given no access (`cuCtxEnablePeerAccess`, and for memory of pools `cuMemPoolSetAccess`).
    NoAccess,
    /// Memory was freed a second time.
    DoubleFree,
    /// Memory was freed with another size than it was allocated with.
    WrongSize,
    /// Something was freed that had not been allocated there.
    UnknownFree,
    /// Memory was read that nobody had written since it was handed out.
    UninitialisedRead,
    /// A stream or event was used after it had been destroyed.
    StaleHandle,
    /// A stream and an event of two devices were used together.
    ForeignHandle,
    /// A call spoilt the capture of a stream, which then makes no graph.
    CaptureUnsafe,
    /// A simulated kernel panicked.
    KernelPanicked,
    /// A call or a piece of work panicked inside the software device: that is a bug of the device,
    /// not of the program. What the call or the work was to do is left out, and the device goes on.
    DevicePanicked,
}

impl ViolationKind {
    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::UseBeforeAllocation => "use before the allocation",
            Self::HandedOutInUse => "handed out while in use",
            Self::HandedOutTwice => "handed out twice",
            Self::ReturnedInUse => "returned while in use",
            Self::ReturnedWhileHandedOut => "returned while handed out",
            Self::UseAfterFree => "use after free",
            Self::OutOfBounds => "out of bounds",
            Self::NoAccess => "no access",
            Self::DoubleFree => "double free",
            Self::WrongSize => "freed with the wrong size",
            Self::UnknownFree => "free of what is not allocated",
            Self::UninitialisedRead => "read of uninitialised memory",
            Self::StaleHandle => "use of a destroyed handle",
            Self::ForeignHandle => "handle of another device",
            Self::CaptureUnsafe => "unsafe call during a capture",
            Self::KernelPanicked => "kernel panicked",
            Self::DevicePanicked => "the software device panicked",
        }
    }
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One of the two parties of a violation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Access {
    /// What it does.
    pub operation: Operation,
    /// What does it: a kernel's name, `copy`, `fill`, or a call.
    pub what: &'static str,
    /// The stream in whose order it happens, as `cuStreamGetId` tells it; `None` for the host.
    pub stream: Option<u64>,
    /// Its place among the stream's items, counted from 1; for a hand-out or a take-back, the last
    /// item before it.
    pub position: u64,
    /// What else it is ordered behind: what a later item of its stream waits for without being told
    /// to.
    pub(crate) also: Vec<Point>,
    /// Where it was asked for, if the machine [keeps
    /// backtraces](crate::MachineBuilder::backtraces).
    pub backtrace: Option<Arc<Backtrace>>,
}

impl Access {
    /// The places that something must be ordered behind to come after this.
    pub(crate) fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let own = self.stream.map(|stream| Point { stream, position: self.position });
        own.into_iter().chain(self.also.iter().copied())
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Operation::Read => write!(f, "{} reads it", self.what)?,
            Operation::Write => write!(f, "{} writes it", self.what)?,
            Operation::Update => write!(f, "{} updates it", self.what)?,
            Operation::HandOut => write!(f, "{} hands it out", self.what)?,
            Operation::TakeBack => write!(f, "{} takes it back", self.what)?,
        }
        match (self.stream, self.operation) {
            (None, _) => f.write_str(" on the host"),
            (Some(stream), Operation::Read | Operation::Write | Operation::Update) => {
                write!(f, " as item {} of stream {stream}", self.position)
            }
            (Some(stream), _) => write!(f, " on stream {stream} after its item {}", self.position),
        }
    }
}

/// The order that a correct program would have had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MissingOrder {
    /// The stream whose item must come first.
    pub stream: u64,
    /// That item's place.
    pub position: u64,
    /// The stream that must come after; `None` for the host.
    pub behind: Option<u64>,
    /// How far into the first stream the other one is ordered behind.
    pub known: u64,
}

impl fmt::Display for MissingOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, position, behind, known } = *self;
        match behind {
            Some(behind) => write!(f, "stream {behind}")?,
            None => f.write_str("the host")?,
        }
        match known {
            0 => write!(f, " is ordered behind nothing of stream {stream}")?,
            known => write!(f, " is ordered behind stream {stream} up to item {known} only")?,
        }
        match behind {
            Some(behind) => write!(
                f,
                "; an event recorded there after item {position}, that stream {behind} waits for, would order them"
            ),
            None => write!(f, "; waiting until item {position} is done would order them"),
        }
    }
}

/// A rule of memory or of stream order that a program broke.
///
/// The order is judged by what the program asked for, never by what happened to run first: a report
/// does not depend on luck.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// Which rule.
    pub kind: ViolationKind,
    /// The access that came first, if there are two.
    pub first: Option<Access>,
    /// The access that broke the rule, if it was one.
    pub second: Option<Access>,
    /// The memory: a device (`d0`) or the host (`h`) and an offset, and how many bytes.
    pub place: Option<(String, usize)>,
    /// What would have had to be so.
    pub missing: Option<MissingOrder>,
    /// What there is to add.
    pub detail: String,
}

impl Violation {
    pub(crate) fn new(kind: ViolationKind) -> Self {
        Self { kind, first: None, second: None, place: None, missing: None, detail: String::new() }
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    pub(crate) fn with_first(mut self, first: &Access) -> Self {
        self.first = Some(first.clone());
        self
    }

    pub(crate) fn with_second(mut self, second: &Access) -> Self {
        self.second = Some(second.clone());
        self
    }

    /// Whether two reports are of the same two accesses.
    pub(crate) fn repeats(&self, other: &Self) -> bool {
        let key = |access: &Option<Access>| {
            access.as_ref().map(|access| (access.stream, access.position, access.operation))
        };
        self.kind == other.kind
            && self.first.is_some()
            && key(&self.first) == key(&other.first)
            && key(&self.second) == key(&other.second)
            && self.second.as_ref().is_some_and(|second| second.stream.is_some())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some((place, bytes)) = &self.place {
            write!(f, ": {bytes} bytes at {place}")?;
        }
        match (&self.first, &self.second) {
            (Some(first), Some(second)) => write!(f, ": {first}, then {second}")?,
            (None, Some(one)) | (Some(one), None) => write!(f, ": {one}")?,
            (None, None) => {}
        }
        if let Some(missing) = &self.missing {
            write!(f, ": {missing}")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        for (name, access) in [("first", &self.first), ("second", &self.second)] {
            if let Some(backtrace) = access.as_ref().and_then(|access| access.backtrace.as_ref()) {
                write!(
                    f,
                    "\n    the {name} access was asked for at{}",
                    call_site::told(backtrace)
                )?;
            }
        }
        Ok(())
    }
}
