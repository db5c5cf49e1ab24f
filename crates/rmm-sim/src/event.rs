//! Events, and the points in streams that they stand for.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use crate::capture::Captured;

/// A place in a stream: the stream's work up to and with the item at `position`, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Point {
    pub(crate) stream: u64,
    pub(crate) position: u64,
}

/// Places in streams, the latest one of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points(BTreeMap<u64, u64>);

impl Points {
    /// Whether `point` is at or before the place held for its stream.
    pub(crate) fn covers(&self, point: Point) -> bool {
        self.0.get(&point.stream).is_some_and(|&position| position >= point.position)
    }

    /// How far into a stream these places reach; 0 if not at all.
    pub(crate) fn position_in(&self, stream: u64) -> u64 {
        self.0.get(&stream).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, point: Point) {
        let position = self.0.entry(point.stream).or_default();
        *position = point.position.max(*position);
    }

    pub(crate) fn join(&mut self, other: &Self) {
        other.iter().for_each(|point| self.add(point));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Point> + '_ {
        self.0.iter().map(|(&stream, &position)| Point { stream, position })
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Point) -> bool) {
        self.0.retain(|&stream, &mut position| keep(Point { stream, position }));
    }
}

impl FromIterator<Point> for Points {
    fn from_iter<I: IntoIterator<Item = Point>>(points: I) -> Self {
        let mut all = Self::default();
        points.into_iter().for_each(|point| all.add(point));
        all
    }
}

/// An event. One that was never recorded stands for nothing, and is complete.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) device: usize,
    pub(crate) keeps_time: bool,
    /// What it was recorded behind.
    pub(crate) points: Points,
    /// What a stream that waits for it is then ordered behind: the points and all that came before
    /// them.
    pub(crate) frontier: Points,
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
            points: Points::default(),
            frontier: Points::default(),
            time: None,
            captured: None,
        }
    }
}
