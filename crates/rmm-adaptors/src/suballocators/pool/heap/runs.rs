//! An index of runs: free neighbours on several lists, which several streams have freed side by
//! side.
//!
//! Free neighbours of one list are one block, so a run of several blocks has at least two lists.
//! Only such runs are indexed, by their start: a block without a free neighbour costs nothing here.
//!
//! ```text
//!   | live | a | b | a | live | a | live | b | clean |      a, b: free in these streams' lists
//!          '---run---'                   '---run---'
//! ```
//!
//! The index costs more than a walk over the blocks of a small heap, and serves only requests that
//! miss all free lists. So it is built when such a request comes to a heap of many blocks, and
//! dropped once as many blocks have changed since the last one as there were when it was built:
//! then a walk is cheaper than all those updates.
//!
//! # Invariant
//! While the index is kept, `[start, end)` is in it if and only if it is a maximal range of a
//! segment that consists of two or more free blocks.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::bins::{Bin, BinMap};
use super::nodes::{NodeId, NodeState, Nodes, SegmentId};

/// A maximal range of free neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) first: NodeId,
    pub(super) end: u64,
}

/// Where a run starts.
pub(super) type Start = (SegmentId, u64);

/// Heaps of fewer blocks are walked instead of indexed.
const INDEXED_FROM: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct Runs {
    /// The index is built for heaps of at least this many blocks.
    pub(super) from: usize,
    is_kept: bool,
    /// Updates left until the index is dropped.
    patience: usize,
    /// What `patience` is reset to at each query.
    lifetime: usize,
    by_start: BTreeMap<Start, Run>,
    /// Number of runs by bin of their size. Index: [`Bin`]. Empty until there was a run.
    of_bin: Vec<u32>,
    /// The bins that have runs.
    map: BinMap,
}

impl Runs {
    pub(super) fn new() -> Self {
        Self {
            from: INDEXED_FROM,
            is_kept: false,
            patience: 0,
            lifetime: 0,
            by_start: BTreeMap::new(),
            of_bin: Vec::new(),
            map: BinMap::new(),
        }
    }

    /// Whether there is an index at the moment.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Builds the index of all runs of a heap with `blocks` blocks.
    pub(super) fn make(&mut self, blocks: usize, runs: impl IntoIterator<Item = (Start, Run)>) {
        debug_assert!(!self.is_kept, "it is made once");
        (self.is_kept, self.lifetime) = (true, blocks);
        for (start, run) in runs {
            self.insert(start, run);
        }
    }

    /// Notes that the index was queried.
    pub(super) fn note_question(&mut self) {
        self.patience = self.lifetime;
    }

    /// Counts an update, and drops the index if there were many since the last query. Returns
    /// whether there still is an index.
    fn goes_on(&mut self) -> bool {
        if let Some(left) = self.patience.checked_sub(1) {
            self.patience = left;
        } else {
            self.is_kept = false;
            self.by_start.clear();
            self.of_bin.fill(0);
            self.map = BinMap::new();
        }
        self.is_kept
    }

    /// Host bytes of the index.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        // A tree's nodes are a quarter empty or less, mostly.
        let runs = self.by_start.len() * size_of::<(Start, Run)>() * 4 / 3;
        (runs + self.of_bin.capacity() * size_of::<u32>()) as u64
    }

    /// The free neighbours of a block that changes, if there are any and the index is kept.
    fn run_beside(&mut self, nodes: &Nodes, id: NodeId) -> Option<Neighbours> {
        self.goes_on().then(|| free_neighbours(nodes, id)).filter(|&beside| beside != (None, None))
    }

    /// Adds a block that has become free. O(log runs); O(1) if no neighbour is free.
    #[inline]
    pub(super) fn join(&mut self, nodes: &Nodes, id: NodeId) {
        if self.is_kept {
            self.join_neighbours(nodes, id);
        }
    }

    #[inline(never)]
    fn join_neighbours(&mut self, nodes: &Nodes, id: NodeId) {
        let Some((before, after)) = self.run_beside(nodes, id) else { return };
        let node = nodes.get(id);
        let (mut start, mut end, mut first) = (node.offset, node.offset + node.size, id);
        if let Some(before) = before {
            (start, first) = (nodes.get(before).offset, before);
            if free_neighbours(nodes, before).0.is_some() {
                let (known, run) = self.run_of(node.segment, start);
                self.remove((node.segment, known), run.end);
                (start, first) = (known, run.first);
            }
        }
        if let Some(after) = after {
            let next = nodes.get(after);
            end = next.offset + next.size;
            if free_neighbours(nodes, after).1.is_some() {
                let (known, run) = self.run_of(node.segment, next.offset);
                self.remove((node.segment, known), run.end);
                end = run.end;
            }
        }
        self.insert((node.segment, start), Run { first, end });
    }

    /// Removes a block that is free no more. O(log runs); O(1) if no neighbour is free.
    #[inline]
    pub(super) fn part(&mut self, nodes: &Nodes, id: NodeId) {
        if self.is_kept {
            self.part_neighbours(nodes, id);
        }
    }

    #[inline(never)]
    fn part_neighbours(&mut self, nodes: &Nodes, id: NodeId) {
        let Some((before, after)) = self.run_beside(nodes, id) else { return };
        let node = nodes.get(id);
        let (start, run) = self.run_of(node.segment, node.offset);
        self.remove((node.segment, start), run.end);
        // A single block is not a run.
        if before.is_some_and(|before| nodes.get(before).offset > start) {
            self.insert((node.segment, start), Run { first: run.first, end: node.offset });
        }
        if let Some(after) = after {
            let next = nodes.get(after);
            if next.offset + next.size < run.end {
                self.insert((node.segment, next.offset), Run { first: after, end: run.end });
            }
        }
    }

    /// The run that contains an offset, and its start.
    fn run_of(&self, segment: SegmentId, offset: u64) -> (u64, Run) {
        let (&(_, start), &run) = self
            .by_start
            .range(..=(segment, offset))
            .next_back()
            .expect("two free neighbours are in a run, and every run is indexed");
        (start, run)
    }

    fn insert(&mut self, start: Start, run: Run) {
        let bin = Bin::of(run.end - start.1);
        self.of_bin.resize(BinMap::BINS, 0);
        self.of_bin[bin.index()] += 1;
        self.map.set(bin);
        self.by_start.insert(start, run);
    }

    fn remove(&mut self, start: Start, end: u64) {
        let bin = Bin::of(end - start.1);
        self.of_bin[bin.index()] -= 1;
        if self.of_bin[bin.index()] == 0 {
            self.map.clear(bin);
        }
        self.by_start.remove(&start);
    }

    /// The runs of at least `size` bytes, by address, with their bytes. O(runs); O(1) if all are
    /// much smaller.
    pub(super) fn at_least(&self, size: u64) -> impl Iterator<Item = (u64, Run)> + '_ {
        let is_any = self.map.at_or_above(Bin::of(size)).is_some();
        let runs = is_any.then_some(&self.by_start).into_iter().flatten();
        runs.map(|(start, &run)| (run.end - start.1, run)).filter(move |&(bytes, _)| bytes >= size)
    }
}

/// The free blocks directly before and after one.
pub(super) type Neighbours = (Option<NodeId>, Option<NodeId>);

/// The neighbours of a block that are free.
#[inline]
pub(super) fn free_neighbours(nodes: &Nodes, id: NodeId) -> Neighbours {
    let node = nodes.get(id);
    let is_free = |&id: &NodeId| matches!(nodes.get(id).state, NodeState::Free(..));
    // The fields of a packed record are copied before they are used.
    let (before, after) = (node.before, node.after);
    (before.filter(is_free), after.filter(is_free))
}
