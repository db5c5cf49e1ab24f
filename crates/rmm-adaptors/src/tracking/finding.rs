//! What a tracker finds.

use std::alloc::Layout;
use std::fmt;

use rmm_core::DevicePtr;

use super::TrackingReport;

/// Something that a [`TrackingResourceAdaptor`](super::TrackingResourceAdaptor) found: a bug in the
/// program. Displays as RMM's log says it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TrackingFinding<'a> {
    /// A free of an address that is not allocated.
    UnknownFree {
        /// The address.
        pointer: DevicePtr,
        /// What it was freed as.
        freed: Layout,
    },
    /// A free with another layout than that of the allocation.
    WrongFree {
        /// The address.
        pointer: DevicePtr,
        /// What it was allocated as.
        allocated: Layout,
        /// What it was freed as.
        freed: Layout,
    },
    /// What is left when the last handle is dropped.
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
