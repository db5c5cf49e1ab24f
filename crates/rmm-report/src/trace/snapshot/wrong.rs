//! Where in a snapshot something is wrong.

use std::fmt;

use super::super::error::Reason;

/// A part of a snapshot. `Display` is its path as Python writes it: `device_traces[0][17]`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// All events of a device.
    Device(usize),
    /// A device and the index of one of its events.
    Entry(usize, usize),
    /// A segment.
    Segment(usize),
    /// A segment and the index of one of its blocks.
    Block(usize, usize),
}

impl Place {
    /// The error of what is here.
    pub(super) fn wrong(self, what: impl Into<String>) -> Reason {
        Reason::Snapshot { place: self.to_string(), what: what.into() }
    }

    /// The error of what is under a key here.
    pub(super) fn wrong_at(self, key: &str, what: impl Into<String>) -> Reason {
        Reason::Snapshot { place: format!("{self}.{key}"), what: what.into() }
    }

    /// The reason with this place, if it has none yet.
    pub(super) fn of(self, reason: Reason) -> Reason {
        match reason {
            Reason::Snapshot { .. } => reason,
            Reason::AlreadyLive { pointer, line } => {
                self.wrong(format!("allocates {pointer:#x}, which is live since entry {line}"))
            }
            reason => self.wrong(reason.to_string()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(device) => write!(f, "device_traces[{device}]"),
            Self::Entry(device, entry) => write!(f, "device_traces[{device}][{entry}]"),
            Self::Segment(segment) => write!(f, "segments[{segment}]"),
            Self::Block(segment, block) => write!(f, "segments[{segment}].blocks[{block}]"),
        }
    }
}
