//! What a tracker reports: invalid frees and leaks.

use std::alloc::Layout;
use std::fmt;

use rmm_core::DevicePtr;

use super::TrackingReport;

/// A finding of a [`TrackingResourceAdaptor`](super::TrackingResourceAdaptor): a bug in the
/// program. Displays like the message in RMM's log.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TrackingFinding<'a> {
    /// A free of an address that is not allocated.
    UnknownFree {
        /// The address.
        pointer: DevicePtr,
        /// The layout of the free.
        freed: Layout,
    },
    /// A free with a layout other than that of the allocation.
    WrongFree {
        /// The address.
        pointer: DevicePtr,
        /// The layout of the allocation.
        allocated: Layout,
        /// The layout of the free.
        freed: Layout,
    },
    /// Blocks that are live when the last handle is dropped.
    Leak(&'a TrackingReport),
}

impl fmt::Display for TrackingFinding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFree { pointer, freed } => write!(
                f,
                "Deallocating a pointer that was not tracked. Ptr: {:#x} [{}B]",
                pointer.0,
                freed.size()
            ),
            Self::WrongFree { pointer, allocated, freed } if allocated.size() != freed.size() => {
                write!(
                    f,
                    "Alloc bytes ({}) and Dealloc bytes ({}) do not match. Ptr: {:#x}",
                    allocated.size(),
                    freed.size(),
                    pointer.0
                )
            }
            Self::WrongFree { pointer, allocated, freed } => write!(
                f,
                "Alloc alignment ({}) and Dealloc alignment ({}) do not match. Ptr: {:#x}",
                allocated.align(),
                freed.align(),
                pointer.0
            ),
            Self::Leak(report) => write!(f, "Leaked: {report}"),
        }
    }
}
