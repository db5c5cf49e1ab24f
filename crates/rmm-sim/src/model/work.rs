//! Work: the items of a stream's queue.

use std::ffi::c_void;

use crate::model::kernel::KernelBody;
use crate::model::memory::{AllocationKind, Place};
use crate::model::operation::Operation;
use crate::model::vector_clock::Point;

/// The parameter of a host function, which is only passed on to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostData(pub(crate) *mut c_void);

// SAFETY: the pointer is never dereferenced here, only passed to the host function. That function
// may run on any thread by the documentation of `cuLaunchHostFunc`, so its caller promises that the
// parameter may be used there.
unsafe impl Send for HostData {}

/// A host function as the driver takes it.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// An access to memory by work: the place and the operation.
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
    /// Records an event: the point that its waiters wait for.
    Record {
        event: u64,
    },
    /// Releases the memory of a stream-ordered free.
    Release {
        allocation: u64,
    },
    /// Has no effect but its place in the order.
    Marker(&'static str),
}

impl Work {
    /// Whether it runs code of the program, without the machine's lock.
    pub(crate) fn is_callback(&self) -> bool {
        matches!(self, Self::Host { .. } | Self::Kernel(_))
    }

    /// The same work again, unless it can run only once.
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

    /// Has it use what is mapped at its addresses now, up to the mapping with this id: a graph
    /// names addresses, which may have been mapped anew since the capture.
    pub(crate) fn use_mappings(&mut self, last: u64) {
        let places: Vec<&mut Place> = match self {
            Self::Copy { from, to } => vec![from, to],
            Self::Staged { to, .. } | Self::Fill { to, .. } => vec![to],
            Self::Kernel(body) => body.places.iter_mut().map(|(place, _)| place).collect(),
            Self::Host { .. } | Self::Record { .. } | Self::Release { .. } | Self::Marker(_) => {
                Vec::new()
            }
        };
        let allocations = places.into_iter().filter_map(|place| place.allocation.as_mut());
        for mapped in allocations.filter(|allocation| allocation.kind == AllocationKind::Mapped) {
            mapped.id = last;
        }
    }

    /// The name of the work, and its accesses.
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
    /// The points that must be complete before it runs.
    pub(crate) after: Vec<Point>,
}
