//! Points in streams, and vector clocks: the latest point of each stream that happens before
//! something.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// A point in a stream: the stream's work up to and including the item at `position`, counted from
/// 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Point {
    pub(crate) stream: u64,
    pub(crate) position: u64,
}

/// A vector clock (Mattern 1989): for each stream, the position up to which its work is covered.
#[derive(Clone, Debug, Default)]
pub(crate) struct VectorClock(BTreeMap<u64, u64>);

impl VectorClock {
    /// Whether `point` is at or before the position of its stream.
    pub(crate) fn covers(&self, point: Point) -> bool {
        self.0.get(&point.stream).is_some_and(|&position| position >= point.position)
    }

    /// The position of a stream; 0 if the clock has none.
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
