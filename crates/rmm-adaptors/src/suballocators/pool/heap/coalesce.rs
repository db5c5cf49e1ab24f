//! Coalescing across streams, and unbounded searches: blocks anywhere in a list, and runs of free
//! neighbours on several lists.

#![forbid(unsafe_code)]

use std::cmp::Reverse;

use super::lists::StreamLists;
use super::nodes::{Node, NodeId, NodeState};
use super::runs::{Run, Start, free_neighbours};
use super::zones::Zone;
use super::{Heap, Segment};
use crate::suballocators::pool::values::units::{ListId, Point};

/// Free neighbours, all of which the requesting stream may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsableRun {
    pub(super) first: NodeId,
    pub(super) bytes: u64,
}

impl Heap {
    /// Bytes of the longest run of free neighbours, on any lists: the largest block that waiting
    /// could make. O(runs + lists) with the index of runs, else O(blocks).
    pub(crate) fn longest_free_run(&self) -> u64 {
        let longest = self.runs_at_least(0).map(|(bytes, _)| bytes).max();
        self.largest_free().max(longest.unwrap_or(0))
    }

    /// The runs of two or more free neighbours of at least `size` bytes in all, by address, with
    /// their bytes: from the index, or by a walk over all blocks where it is not kept.
    pub(super) fn runs_at_least(&self, size: u64) -> impl Iterator<Item = (u64, Run)> + '_ {
        let is_kept = self.runs.is_kept();
        let indexed = is_kept.then(|| self.runs.at_least(size)).into_iter().flatten();
        let walked = (!is_kept).then(|| self.walk_runs()).into_iter().flatten();
        let walked = walked.map(|((_, start), run)| (run.end - start, run));
        indexed.chain(walked.filter(move |&(bytes, _)| bytes >= size))
    }

    /// All runs of two or more free neighbours, by a walk over all blocks.
    fn walk_runs(&self) -> impl Iterator<Item = (Start, Run)> + '_ {
        let of_segment = move |segment: &Segment| {
            let mut next = Some(segment.first);
            std::iter::from_fn(move || self.next_run(&mut next))
        };
        self.segments.iter().flatten().flat_map(of_segment)
    }

    /// The first run from a block on; `next` is then the block behind it.
    fn next_run(&self, next: &mut Option<NodeId>) -> Option<(Start, Run)> {
        loop {
            let first = (*next)?;
            let Node { segment, offset, state, after, .. } = *self.nodes.get(first);
            *next = after;
            if !matches!(state, NodeState::Free(..)) {
                continue;
            }
            let mut end = None;
            while let Some(id) = *next {
                let Node { offset, size, state, after, .. } = *self.nodes.get(id);
                *next = after;
                if !matches!(state, NodeState::Free(..)) {
                    break;
                }
                end = Some(offset + size);
            }
            if let Some(end) = end {
                return Some(((segment, offset), Run { first, end }));
            }
        }
    }

    /// Builds the index of runs, if there are many blocks.
    fn index_runs(&mut self) {
        if !self.runs.is_kept() && self.nodes.count() >= self.runs.from {
            let runs: Vec<(Start, Run)> = self.walk_runs().collect();
            self.runs.make(self.nodes.count(), runs);
        }
        self.runs.note_question();
    }

    /// The owners of the first `size` bytes of the shortest run of free neighbours that is long
    /// enough: each list once, with its latest point there. Without the idle list.
    pub(crate) fn owners_of_run(&self, size: u64) -> Option<Vec<(ListId, Point)>> {
        let run = self.shortest_usable_run(size, |_, _| true)?;
        let mut owners: Vec<(ListId, Point)> = Vec::new();
        let mut missing = size;
        for id in self.blocks_from(run.first) {
            let Node { state, size: bytes, .. } = *self.nodes.get(id);
            let (NodeState::Free(list, point), true) = (state, missing > 0) else { break };
            missing = missing.saturating_sub(bytes);
            if list != ListId::ANY_STREAM {
                owners.push((list, point));
            }
        }
        owners.sort_unstable_by_key(|&(list, point)| (list.index(), Reverse(point)));
        owners.dedup_by_key(|&mut (list, _)| list);
        Some(owners)
    }

    /// Whether there are `size` bytes of free neighbours, on any lists.
    pub(crate) fn has_free_run(&self, size: u64) -> bool {
        self.largest_free() >= size || self.runs_at_least(size).next().is_some()
    }

    /// Takes a block of `size` bytes that `usable` accepts: a free block, or else the shortest run
    /// of free neighbours on several lists that is long enough. The remainder of a run goes to the
    /// list `into` at the point `point`, which is not before any of the run's.
    ///
    /// If `usable` accepts a point of a list it must accept all earlier ones. O(blocks that are
    /// large enough + blocks in runs that are long enough).
    pub(crate) fn coalesce_across_streams(
        &mut self,
        size: u64,
        into: ListId,
        point: Point,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<NodeId> {
        if let Some(id) = self.find_usable(size, &usable) {
            return Some(self.make_live(id, size));
        }
        self.index_runs();
        let UsableRun { first, bytes } = self.shortest_usable_run(size, usable)?;
        self.delist(first);
        self.nodes.get_mut(first).zone = Zone::Large;
        while self.nodes.get(first).size < bytes {
            let after = self.nodes.get(first).after;
            self.delist(after.expect("a run has blocks up to its end"));
            self.merge_next(first);
        }
        let fused = self.insert_coalesced(first, into, point);
        Some(self.make_live(fused, size))
    }

    /// The smallest block of at least `size` bytes that `usable` accepts, of all free ones.
    pub(super) fn find_usable(
        &self,
        size: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<NodeId> {
        let in_list = |(id, list): (ListId, &StreamLists)| {
            // Most lists are skipped without a look at their blocks.
            let is_worth_it = size <= list.largest_bound() && usable(id, list.oldest());
            is_worth_it.then(|| list.find_smallest(&self.nodes, size, |point| usable(id, point)))?
        };
        let found = self.lists.with_blocks().filter_map(in_list);
        found.min_by_key(|&id| self.nodes.get(id).size)
    }

    /// The shortest run of free neighbours of at least `size` bytes all of which `usable` accepts.
    pub(super) fn shortest_usable_run(
        &self,
        size: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<UsableRun> {
        let mut best: Option<UsableRun> = None;
        let mut consider = |run: Option<UsableRun>| {
            best = best
                .into_iter()
                .chain(run.filter(|run| run.bytes >= size))
                .min_by_key(|run| run.bytes);
        };
        for (_, run) in self.runs_at_least(size) {
            let mut usable_run: Option<UsableRun> = None;
            for id in self.blocks_from(run.first) {
                let Node { state, size: bytes, .. } = *self.nodes.get(id);
                let NodeState::Free(list, freed) = state else { break };
                if usable(list, freed) {
                    usable_run.get_or_insert(UsableRun { first: id, bytes: 0 }).bytes += bytes;
                } else {
                    consider(usable_run.take());
                }
            }
            consider(usable_run);
        }
        best
    }

    /// Moves blocks that were freed no later than `done` says for their list to the idle list, if
    /// they decide whether a whole piece is idle: blocks that could hold a piece, and those in runs
    /// that could.
    pub(crate) fn reclaim_pieces(&mut self, done: impl Fn(ListId) -> Point) {
        let least = self.smallest_piece;
        let is_done =
            |list: ListId, point: Point| list != ListId::ANY_STREAM && point <= done(list);
        let mut ids: Vec<NodeId> = Vec::new();
        for (index, list) in self.lists.with_blocks() {
            if index != ListId::ANY_STREAM && list.oldest() <= done(index) {
                // Those in runs come below.
                ids.extend(list.iter_from(&self.nodes, least).filter(|&id| {
                    let node = self.nodes.get(id);
                    let is_alone = free_neighbours(&self.nodes, id) == (None, None);
                    node.size >= least && is_alone && is_done(index, node.point())
                }));
            }
        }
        for (_, run) in self.runs_at_least(least) {
            for id in self.blocks_from(run.first) {
                let NodeState::Free(list, point) = self.nodes.get(id).state else { break };
                if is_done(list, point) {
                    ids.push(id);
                }
            }
        }
        for id in ids {
            self.delist(id);
            self.insert_coalesced(id, ListId::ANY_STREAM, 0);
        }
    }
}
