//! Work: what a stream's queue holds.

use std::ffi::c_void;

use crate::model::kernel::KernelBody;
use crate::model::memory::Place;
use crate::model::operation::Operation;
use crate::model::vector_clock::Point;

/// The parameter of a host function: opaque here, and only ever handed back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostData(pub(crate) *mut c_void);

// SAFETY: the pointer is not used here; `cuLaunchHostFunc` documents that the function may run on
// any thread, so its caller vouches for the parameter being usable there.
unsafe impl Send for HostData {}

/// A host function as the driver takes it.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A use of memory by work: where, and what it does there.
pub(crate) type Use = (Place, Operation);

/// A piece of work.
#[derive(Debug)]
pub(crate) enum Work {
    Copy {
        from: Place,
        to: Place,
    },
    /// A copy from memory that was read when the copy was enqueued.
    Staged {
        bytes: Box<[u8]>,
        to: Place,
    },
    Fill {
        to: Place,
        pattern: [u8; 4],
        width: usize,
    },
    Host {
        function: HostFunction,
        data: HostData,
    },
    Kernel(KernelBody),
    /// The place that an event stands for.
    Record {
        event: u64,
    },
    /// The end of the memory that a stream-ordered free let go of.
    Release {
        allocation: u64,
    },
    /// Something that only has a place in the order.
    Marker(&'static str),
}

impl Work {
    /// The same work once more, unless it can be done only once.
    pub(crate) fn repeated(&self) -> Option<Self> {
        Some(match self {
            Self::Copy { from, to } => Self::Copy { from: *from, to: *to },
            Self::Fill { to, pattern, width } => {
                Self::Fill { to: *to, pattern: *pattern, width: *width }
            }
            Self::Host { function, data } => Self::Host { function: *function, data: *data },
            Self::Kernel(body) => Self::Kernel(body.repeated()?),
            Self::Marker(what) => Self::Marker(what),
            Self::Staged { .. } | Self::Record { .. } | Self::Release { .. } => return None,
        })
    }

    /// What the work reads and writes, and its name.
    pub(crate) fn uses(&self) -> (&'static str, Vec<Use>) {
        match self {
            Self::Copy { from, to } => {
                ("copy", vec![(*from, Operation::Read), (*to, Operation::Write)])
            }
            Self::Staged { to, .. } => ("copy", vec![(*to, Operation::Write)]),
            Self::Fill { to, .. } => ("fill", vec![(*to, Operation::Write)]),
            Self::Kernel(body) => (body.name, body.places.clone()),
            Self::Host { .. } | Self::Record { .. } | Self::Release { .. } | Self::Marker(_) => {
                ("", Vec::new())
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) work: Work,
    /// What must be complete before.
    pub(crate) after: Vec<Point>,
}
