//! What a tracker reports: invalid frees and leaks.

use std::alloc::Layout;
use std::fmt;

use rmm_core::DevicePtr;

use super::report::TrackingReport;

/// A finding of a [`TrackingResourceAdaptor`](crate::TrackingResourceAdaptor): a bug in the
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
        /// Where it is freed, if callers are captured.
        freed_at: Option<&'a str>,
    },
    /// A free with a layout other than that of the allocation.
    WrongFree {
        /// The address.
        pointer: DevicePtr,
        /// The layout of the allocation.
        allocated: Layout,
        /// The layout of the free.
        freed: Layout,
        /// Where the block was allocated, if callers are captured.
        allocated_at: Option<&'a str>,
        /// Where it is freed, if callers are captured.
        freed_at: Option<&'a str>,
    },
    /// Blocks that are live when the last handle is dropped.
    Leak(&'a TrackingReport),
}

impl fmt::Display for TrackingFinding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFree { pointer, freed, freed_at } => {
                let size = freed.size();
                write!(
                    f,
                    "Deallocating a pointer that was not tracked. Ptr: {:#x} [{size}B]",
                    pointer.0
                )?;
                places(f, [("freed", *freed_at)])
            }
            Self::WrongFree { pointer, allocated, freed, allocated_at, freed_at } => {
                let ((what, one), other) = if allocated.size() == freed.size() {
                    (("alignment", allocated.align()), freed.align())
                } else {
                    (("bytes", allocated.size()), freed.size())
                };
                write!(
                    f,
                    "Alloc {what} ({one}) and Dealloc {what} ({other}) do not match. Ptr: {:#x}",
                    pointer.0
                )?;
                places(f, [("allocated", *allocated_at), ("freed", *freed_at)])
            }
            Self::Leak(report) => write!(f, "Leaked: {report}"),
        }
    }
}

fn places<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    places: [(&str, Option<&str>); N],
) -> fmt::Result {
    let known = places.into_iter().filter_map(|(what, place)| Some((what, place?)));
    known.into_iter().try_for_each(|(what, place)| write!(f, ", {what} at {place}"))
}
