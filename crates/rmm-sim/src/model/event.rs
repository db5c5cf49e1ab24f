//! Events.
#![forbid(unsafe_code)]

use crate::model::graph::Captured;
use crate::model::vector_clock::VectorClock;

/// An event. One that was never recorded is complete.
#[derive(Debug)]
pub(crate) struct Event {
    /// The context that it belongs to, and that context's device.
    pub(crate) context: usize,
    pub(crate) device: usize,
    pub(crate) keeps_time: bool,
    /// The points that it was recorded after.
    pub(crate) points: VectorClock,
    /// The vector clock that a stream joins by waiting for it: the points, and all that happens
    /// before them.
    pub(crate) frontier: VectorClock,
    /// When the work that it was last recorded after is complete, in simulated nanoseconds.
    pub(crate) time: Option<u64>,
    /// The nodes that it was recorded after, if it was last recorded in a capture.
    pub(crate) captured: Option<Captured>,
}

impl Event {
    pub(crate) fn new((context, device): (usize, usize), keeps_time: bool) -> Self {
        Self {
            context,
            device,
            keeps_time,
            points: VectorClock::default(),
            frontier: VectorClock::default(),
            time: None,
            captured: None,
        }
    }
}
