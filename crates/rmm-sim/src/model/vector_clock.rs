//! VectorClock in streams, and vector clocks: the latest point of each stream.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// A place in a stream: the stream's work up to and with the item at `position`, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Point {
    pub(crate) stream: u64,
    pub(crate) position: u64,
}

/// Places in streams, the latest one of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct VectorClock(BTreeMap<u64, u64>);

impl VectorClock {
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

impl FromIterator<Point> for VectorClock {
    fn from_iter<I: IntoIterator<Item = Point>>(points: I) -> Self {
        let mut all = Self::default();
        points.into_iter().for_each(|point| all.add(point));
        all
    }
}
