//! Events.
#![forbid(unsafe_code)]

use crate::model::graph::Captured;
use crate::model::vector_clock::VectorClock;

/// An event. One that was never recorded stands for nothing, and is complete.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) device: usize,
    pub(crate) keeps_time: bool,
    /// What it was recorded behind.
    pub(crate) points: VectorClock,
    /// What a stream that waits for it is then ordered behind: the points and all that came before
    /// them.
    pub(crate) frontier: VectorClock,
    /// When the work it was last recorded behind is done, in simulated nanoseconds.
    pub(crate) time: Option<u64>,
    /// The part of a capture that it stands for, if it was last recorded in one.
    pub(crate) captured: Option<Captured>,
}

impl Event {
    pub(crate) fn new(device: usize, keeps_time: bool) -> Self {
        Self {
            device,
            keeps_time,
            points: VectorClock::default(),
            frontier: VectorClock::default(),
            time: None,
            captured: None,
        }
    }
}
