//! Violations: which rule was broken, by which two accesses, and which happens-before edge is
//! missing.
#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::Arc;

use crate::model::call_site;
use crate::model::operation::Operation;
use crate::model::vector_clock::Point;

/// Which rule was broken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ViolationKind {
    /// A data race: two accesses to the same bytes, at least one of them a write, and neither
    /// happens before the other.
    Race,
    /// Memory was used on a stream that is not ordered after its allocation.
    UseBeforeAllocation,
    /// An allocator returned memory to a stream (or to all streams) that an earlier use on another
    /// stream may still access.
    AllocatedInUse,
    /// An allocator returned memory that it had returned before and that was not freed since.
    AllocatedTwice,
    /// Memory was freed or unmapped while a use that is not ordered before may still access it.
    FreedInUse,
    /// Memory was freed while parts of it were still allocated by a suballocator.
    FreedWithSuballocations,
    /// Memory was freed or unmapped that a library has [registered](crate::Machine::register).
    FreedWhileRegistered,
    /// Work accessed memory that had been freed or unmapped.
    UseAfterFree,
    /// An access reached past the end of an allocation, or into reserved addresses at which nothing
    /// is mapped.
    OutOfBounds,
    /// Work of a device named mapped memory to which the device has no such access right, or lost
    /// the right before the work ran; or a kernel named memory of another device to which its own
    /// was given no access (`cuCtxEnablePeerAccess`, and for memory of pools `cuMemPoolSetAccess`).
    NoAccess,
    /// Memory was freed a second time.
    DoubleFree,
    /// Memory was freed with another size than it was allocated with.
    WrongSize,
    /// An address was freed at which no allocation starts.
    UnknownFree,
    /// Memory was read that was not written since it was allocated.
    UninitialisedRead,
    /// A stream, event or pool was used after it had been destroyed.
    StaleHandle,
    /// A stream and an event of two devices were used together.
    ForeignHandle,
    /// A call invalidated the capture of a stream, which then makes no graph.
    CaptureUnsafe,
    /// A simulated kernel panicked.
    KernelPanicked,
    /// A call or a piece of work panicked inside the software device. That is a bug of the device,
    /// not of the program. The call or the work has no effect, and the device goes on.
    DevicePanicked,
}

impl ViolationKind {
    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::UseBeforeAllocation => "use before allocation",
            Self::AllocatedInUse => "allocated while in use",
            Self::AllocatedTwice => "allocated twice",
            Self::FreedInUse => "freed while in use",
            Self::FreedWithSuballocations => "freed with live suballocations",
            Self::FreedWhileRegistered => "freed while registered",
            Self::UseAfterFree => "use after free",
            Self::OutOfBounds => "out of bounds",
            Self::NoAccess => "no access right",
            Self::DoubleFree => "double free",
            Self::WrongSize => "freed with the wrong size",
            Self::UnknownFree => "free of an address that is not allocated",
            Self::UninitialisedRead => "read of uninitialised memory",
            Self::StaleHandle => "use of a destroyed handle",
            Self::ForeignHandle => "handle of another device",
            Self::CaptureUnsafe => "unsafe call during capture",
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

/// One of the two accesses of a violation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Access {
    /// What it does.
    pub operation: Operation,
    /// What does it: a kernel's name, `copy`, `fill`, a driver call, or an allocator.
    pub what: &'static str,
    /// The stream in whose order it happens (`cuStreamGetId`); `None` for the host.
    pub stream: Option<u64>,
    /// The name that the program gave the stream.
    pub stream_name: Option<Arc<str>>,
    /// Its position among the stream's work, counted from 1; for an allocation or a free, that of
    /// the last work before it.
    pub position: u64,
    /// Points of other streams that also precede it: what the stream's next work would wait for
    /// implicitly, by the rules of the legacy default stream.
    pub(crate) also: Vec<Point>,
    /// Whether it is the argument of a call that was refused.
    pub(crate) is_refused: bool,
    /// For a free by the driver, the name that the program gave the memory.
    pub(crate) memory_name: Option<Arc<str>>,
    /// The stack of the driver call that enqueued it, if the machine [keeps
    /// backtraces](crate::MachineBuilder::backtraces).
    pub backtrace: Option<Arc<Backtrace>>,
    /// The Python lines of that call, as the interpreter writes them.
    pub(crate) python: Option<Arc<str>>,
}

impl Access {
    /// The points that a later access must be ordered after.
    pub(crate) fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let own = self.stream.map(|stream| Point { stream, position: self.position });
        own.into_iter().chain(self.also.iter().copied())
    }
}

/// A stream in a report: its id and, if it has one, its name.
struct StreamLabel<'a>(u64, &'a Option<Arc<str>>);

impl fmt::Display for StreamLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)?;
        self.1.as_ref().map_or(Ok(()), |name| write!(f, " {name:?}"))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.operation {
            Operation::Read => "reads",
            Operation::Write => "writes",
            Operation::Update => "updates",
            Operation::Allocate => "allocates",
            Operation::Free => "frees",
        };
        if self.is_refused {
            return write!(f, "{} that {verb} it is enqueued", self.what);
        }
        write!(f, "{} {verb} it", self.what)?;
        let Some(stream) = self.stream.map(|stream| StreamLabel(stream, &self.stream_name)) else {
            return f.write_str(" on the host");
        };
        match self.operation {
            Operation::Read | Operation::Write | Operation::Update => {
                write!(f, " as item {} of {stream}", self.position)
            }
            Operation::Allocate | Operation::Free => {
                write!(f, " on {stream} after its item {}", self.position)
            }
        }
    }
}

/// The happens-before edge that would make a program correct.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MissingOrder {
    /// The stream whose work must come first.
    pub stream: u64,
    /// The name that the program gave that stream.
    pub stream_name: Option<Arc<str>>,
    /// The position of that work in the stream.
    pub position: u64,
    /// The stream that must wait for it; `None` for the host.
    pub waiter: Option<u64>,
    /// The name that the program gave that stream.
    pub waiter_name: Option<Arc<str>>,
    /// The position in `stream` up to which the waiter is ordered after it; 0 for not at all.
    pub reached: u64,
}

impl fmt::Display for MissingOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, position, waiter, reached, .. } = *self;
        let first = StreamLabel(stream, &self.stream_name);
        match waiter {
            Some(waiter) => write!(f, "{}", StreamLabel(waiter, &self.waiter_name))?,
            None => f.write_str("the host")?,
        }
        match reached {
            0 => write!(f, " is not ordered after {first}")?,
            reached => write!(f, " is ordered after {first} only up to item {reached}")?,
        }
        match waiter {
            Some(waiter) => write!(
                f,
                "; record an event on stream {stream} after item {position} and let stream {waiter} wait for it"
            ),
            None => write!(f, "; wait on the host until item {position} is complete"),
        }
    }
}

/// A rule of memory or of stream order that a program broke.
///
/// Two accesses are ordered if the program's calls order them, whatever ran first in this run: a
/// report does not depend on timing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// Which rule.
    pub kind: ViolationKind,
    /// The access that came first, if there are two.
    pub first: Option<Access>,
    /// The access that broke the rule, if it was one.
    pub second: Option<Access>,
    /// The memory: a device (`d0`), virtual addresses (`v`) or the host (`h`) with an offset, and
    /// its bytes.
    pub place: Option<(String, usize)>,
    /// The name that the program gave the memory.
    pub memory_name: Option<Arc<str>>,
    /// The order between the two that is missing.
    pub missing: Option<MissingOrder>,
    /// Further details.
    pub detail: String,
}

/// A range as reports show it: where it starts, its bytes, and its name.
pub(crate) type Located = (String, usize, Option<Arc<str>>);

impl Violation {
    pub(crate) fn new(kind: ViolationKind) -> Self {
        Self {
            kind,
            first: None,
            second: None,
            place: None,
            memory_name: None,
            missing: None,
            detail: String::new(),
        }
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    pub(crate) fn with_first(mut self, first: &Access) -> Self {
        self.memory_name = self.memory_name.or_else(|| first.memory_name.clone());
        self.first = Some(first.clone());
        self
    }

    /// The memory, and the name that it has now.
    pub(crate) fn with_place(mut self, (place, bytes, name): Located) -> Self {
        self.place = Some((place, bytes));
        self.memory_name = name.or(self.memory_name);
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
            self.memory_name.as_ref().map_or(Ok(()), |name| write!(f, " in {name:?}"))?;
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
                let python = access.as_ref().and_then(|access| access.python.as_deref());
                let frames = call_site::frames_of(backtrace, python);
                write!(f, "\n    the {name} access was made at{frames}")?;
            }
        }
        Ok(())
    }
}
