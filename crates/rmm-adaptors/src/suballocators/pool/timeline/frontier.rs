//! A sparse vector clock: how far a stream is ordered after others.
//!
//! It holds only streams that this one has waited for, and only until what it waited for is known
//! to be complete: O(waits that are not over) memory, not O(streams).

#![forbid(unsafe_code)]

use std::cmp::Reverse;

use crate::suballocators::pool::values::units::{ListId, Point};

/// The latest point of each list that a stream is ordered after; 0 for those that are not in it.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    /// Ascending by list.
    points: Vec<(ListId, Point)>,
}

impl Frontier {
    fn position(&self, list: ListId) -> Result<usize, usize> {
        self.points.binary_search_by_key(&list.index(), |&(list, _)| list.index())
    }

    /// The latest point of the list.
    #[inline]
    pub(super) fn point(&self, list: ListId) -> Point {
        self.position(list).map_or(0, |position| self.points[position].1)
    }

    /// Notes that the stream is ordered after the list's points up to `point`.
    pub(super) fn raise(&mut self, list: ListId, point: Point) {
        match self.position(list) {
            Ok(position) => self.points[position].1 = point.max(self.points[position].1),
            Err(position) => self.points.insert(position, (list, point)),
        }
    }

    /// Notes that the stream is ordered after all that another is.
    pub(super) fn join(&mut self, other: &Self) {
        for &(list, point) in &other.points {
            self.raise(list, point);
        }
    }

    /// Adds a point of a list; [`sort`](Self::sort) has to be called after the last.
    pub(super) fn push(&mut self, list: ListId, point: Point) {
        self.points.push((list, point));
    }

    /// Restores the order after points were [pushed](Self::push): the latest of each list stays.
    pub(super) fn sort(&mut self) {
        self.points.sort_unstable_by_key(|&(list, point)| (list.index(), Reverse(point)));
        self.points.dedup_by_key(|&mut (list, _)| list);
    }

    /// Leaves out what `is_needed` does not accept.
    pub(super) fn retain(&mut self, is_needed: impl Fn(ListId, Point) -> bool) {
        self.points.retain(|&(list, point)| is_needed(list, point));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ListId, Point)> + '_ {
        self.points.iter().copied()
    }

    /// Makes it the same as another one, in the memory that it has.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.points.clone_from(&other.points);
    }

    pub(super) fn clear(&mut self) {
        self.points.clear();
    }

    /// Frees host memory that it does not need now.
    pub(super) fn shrink(&mut self) {
        self.points.shrink_to_fit();
    }

    /// Host bytes that it takes, beside its own.
    pub(super) fn bookkeeping_bytes(&self) -> usize {
        self.points.capacity() * size_of::<(ListId, Point)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ListId = ListId(1);
    const OTHER: ListId = ListId(2);

    fn frontier(points: &[(ListId, Point)]) -> Frontier {
        let mut frontier = Frontier::default();
        for &(list, point) in points {
            frontier.raise(list, point);
        }
        frontier
    }

    #[test]
    fn a_frontier_only_moves_forward() {
        let frontier = frontier(&[(OTHER, 3), (ONE, 5), (OTHER, 2)]);
        assert_eq!([ONE, OTHER, ListId(3)].map(|list| frontier.point(list)), [5, 3, 0]);
    }

    #[test]
    fn joined_frontiers_reach_as_far_as_either() {
        let mut joined = frontier(&[(ONE, 5), (OTHER, 1)]);
        joined.join(&frontier(&[(ONE, 2), (OTHER, 7), (ListId(9), 4)]));
        assert!(joined.iter().eq([(ONE, 5), (OTHER, 7), (ListId(9), 4)]));
    }

    #[test]
    fn points_that_were_pushed_are_in_order() {
        let mut frontier = frontier(&[(OTHER, 3)]);
        for (list, point) in [(ListId(9), 1), (OTHER, 7), (ONE, 2), (OTHER, 5)] {
            frontier.push(list, point);
        }
        frontier.sort();
        assert!(frontier.iter().eq([(ONE, 2), (OTHER, 7), (ListId(9), 1)]));
    }

    #[test]
    fn a_frontier_takes_no_room_for_what_is_complete() {
        let mut frontier = frontier(&[(ONE, 5), (OTHER, 7)]);
        frontier.retain(|list, _| list == OTHER);
        frontier.shrink();
        assert_eq!(frontier.bookkeeping_bytes(), size_of::<(ListId, Point)>());
        assert_eq!([ONE, OTHER].map(|list| frontier.point(list)), [0, 7]);
    }
}
