//! Which piece of the pool is free, and where a size goes: plain bookkeeping over segments and offsets.
//!
//! No address and no device is known here, only (segment, offset, size), and no stream, only lists and points. Blocks of
//! a segment tile it. Free neighbours of the same list are always merged; neighbours of different lists may be merged by
//! [`Heap::fuse`], for somebody who may use both.
//!
//! A segment consists of pieces, each of which goes back to where it came from by itself, and may have gaps without memory, which
//! are filled again. A segment that can be extended gets more of both.

#![forbid(unsafe_code)]

mod bins;
mod extend;
mod lists;
mod nodes;
mod pieces;
mod place;
mod split;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(super) use bins::GRANULE;
pub(super) use extend::Claim;
use lists::FreeList;
pub(super) use nodes::{ListId, NodeId, Point, SegmentId};
use nodes::{Node, Nodes, State};
pub(super) use pieces::Piece;

/// A block, to those outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// The list it is in, if it is free.
    pub(crate) free_in: Option<ListId>,
}

#[derive(Debug)]
struct Segment {
    /// Where its last block ends. That block is no gap.
    size: u64,
    /// # Invariant
    /// The block at offset 0. It never changes: merging and splitting keep the first of two.
    first: NodeId,
    /// Start to size. All but the gaps, and what is coming, lies in pieces.
    pieces: BTreeMap<u64, u64>,
    extension: Extension,
}

/// Where memory can be added to a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extension {
    Nowhere,
    /// In its gaps: what is behind its end is somebody else's.
    InGaps,
    Anywhere,
}

/// The pool's memory, block by block.
#[derive(Debug)]
pub(crate) struct Heap {
    nodes: Nodes,
    /// Index: [`ListId`]. The first is the clean list.
    lists: Vec<FreeList>,
    /// Index: [`SegmentId`]. A removed segment leaves its place to the next one.
    segments: Vec<Option<Segment>>,
    reserved: u64,
    live: u64,
    /// Whether space counts more than time.
    is_thorough: bool,
}

impl Node {
    fn point(&self) -> Point {
        match self.state {
            State::Free(_, point) => point,
            State::Live | State::Gap | State::Coming | State::Unused => 0,
        }
    }
}

/// Bins that a search goes up through where not every block will do. It bounds the time of a search that fails.
const FOREIGN_BINS: usize = 8;

impl Heap {
    pub(super) fn new() -> Self {
        Self {
            nodes: Nodes::default(),
            lists: vec![FreeList::new()],
            segments: Vec::new(),
            reserved: 0,
            live: 0,
            is_thorough: false,
        }
    }

    /// Looks longer for a good fit from now on.
    pub(super) fn look_closer(&mut self) {
        self.is_thorough = true;
        self.lists.iter_mut().for_each(FreeList::look_closer);
    }

    /// Bytes of all segments.
    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Bytes of all live blocks.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Host bytes of the books.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        let pieces: usize = self.segments.iter().flatten().map(|entry| entry.pieces.len()).sum();
        let segments = self.segments.capacity() * size_of::<Option<Segment>>();
        let lists = self.lists.capacity() * size_of::<FreeList>();
        let bins = self.lists.len() as u64 * FreeList::BIN_BYTES;
        // A tree's nodes are a quarter empty or less, mostly.
        let pieces = pieces * size_of::<(u64, u64)>() * 4 / 3;
        self.nodes.bookkeeping_bytes() + bins + (segments + lists + pieces) as u64
    }

    /// Frees host memory that the books do not need now.
    pub(super) fn shrink(&mut self) {
        self.nodes.shrink();
    }

    /// Bytes free in a list.
    pub(super) fn free_bytes(&self, list: ListId) -> u64 {
        self.lists[list.index()].bytes()
    }

    pub(super) fn is_empty(&self, list: ListId) -> bool {
        self.lists[list.index()].is_empty()
    }

    /// Bytes of the largest free block.
    pub(super) fn largest_free(&self) -> u64 {
        self.lists.iter().map(|list| list.largest(&self.nodes)).max().unwrap_or(0)
    }

    /// Adds an empty list.
    pub(super) fn add_list(&mut self) -> ListId {
        self.lists.push(FreeList::new());
        if self.is_thorough {
            self.look_closer();
        }
        ListId(u32::try_from(self.lists.len() - 1).unwrap_or(u32::MAX))
    }

    /// Adds a segment: one clean block. It lies in pieces of these sizes.
    pub(super) fn add_segment(&mut self, sizes: &[u64]) -> SegmentId {
        let mut size = 0;
        let mut pieces = BTreeMap::new();
        for &piece in sizes {
            pieces.insert(size, piece);
            size += piece;
        }
        let index = self.segments.iter().position(Option::is_none).unwrap_or(self.segments.len());
        let segment = SegmentId(u32::try_from(index).unwrap_or(u32::MAX));
        let state = State::Free(ListId::CLEAN, 0);
        let first = self.nodes.insert(Node {
            segment,
            offset: 0,
            size,
            state,
            before: None,
            after: None,
            previous: None,
            next: None,
        });
        self.lists[ListId::CLEAN.index()].insert(&mut self.nodes, first);
        let entry = Some(Segment { size, first, pieces, extension: Extension::Nowhere });
        if index == self.segments.len() {
            self.segments.push(entry);
        } else {
            self.segments[index] = entry;
        }
        self.reserved += size;
        segment
    }

    /// Bytes of the longest run of free neighbours, whichever lists they are in: the most that waiting can make one block of.
    /// Takes time in the number of all blocks.
    pub(super) fn longest_free_run(&self) -> u64 {
        let mut longest = 0;
        for segment in self.segments.iter().flatten() {
            let mut run = 0;
            for id in self.blocks_from(segment.first) {
                let node = self.nodes.get(id);
                run = if matches!(node.state, State::Free(..)) { run + node.size } else { 0 };
                longest = longest.max(run);
            }
        }
        longest
    }

    /// Takes a block of `size` bytes from a list, whoever freed it: the best fit among a few candidates.
    pub(super) fn take(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        let id = self.lists[list.index()].find(&self.nodes, size, usize::MAX, |_| true)?;
        Some(self.make_live(id, size))
    }

    /// Takes a block of `size` bytes from a list, or else from the clean one. Where space counts, whichever has the better fit.
    pub(super) fn take_own_or_clean(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        if !self.is_thorough || list == ListId::CLEAN {
            let own = self.take(list, size);
            return own.or_else(|| self.take(ListId::CLEAN, size));
        }
        let find =
            |list: ListId| self.lists[list.index()].find(&self.nodes, size, usize::MAX, |_| true);
        let size_of = |id: NodeId| self.nodes.get(id).size;
        let id = match (find(list), find(ListId::CLEAN)) {
            (Some(own), Some(clean)) if size_of(clean) < size_of(own) => clean,
            (own, clean) => own.or(clean)?,
        };
        Some(self.make_live(id, size))
    }

    /// Takes a block of `size` bytes that was freed no later than `covered`, if one is found in a bounded search.
    pub(super) fn take_covered(
        &mut self,
        list: ListId,
        size: u64,
        covered: Point,
    ) -> Option<NodeId> {
        let id = self.lists[list.index()]
            .find(&self.nodes, size, FOREIGN_BINS, |point| point <= covered)?;
        Some(self.make_live(id, size))
    }

    /// The point of the block that [`take`](Self::take) would take.
    pub(super) fn point_of_fit(&self, list: ListId, size: u64) -> Option<Point> {
        let id = self.lists[list.index()].find(&self.nodes, size, usize::MAX, |_| true)?;
        Some(self.nodes.get(id).point())
    }

    /// Cuts a free block to `size` bytes and hands it out; what is left stays in its list at its point.
    fn make_live(&mut self, id: NodeId, size: u64) -> NodeId {
        let Node { size: whole, state, .. } = *self.nodes.get(id);
        let State::Free(list, _) = state else { return id };
        self.lists[list.index()].remove(&mut self.nodes, id);
        if whole > size {
            let rest = self.split(id, size);
            self.lists[list.index()].insert(&mut self.nodes, rest);
        }
        self.nodes.get_mut(id).state = State::Live;
        self.live += size;
        id
    }

    /// Gives a live block back to a list, at a point that is not below those of the list's other blocks. Merges it with
    /// neighbours of that list. Returns the bytes freed, or `None` if the block is not live.
    pub(super) fn free(&mut self, id: NodeId, list: ListId, point: Point) -> Option<u64> {
        let node = self.nodes.get_mut(id);
        if !matches!(node.state, State::Live) {
            return None;
        }
        let size = node.size;
        node.state = State::Free(list, point);
        self.live -= size;
        self.insert_merged(id, list, point);
        Some(size)
    }

    /// Merges a free block that is in no list with its neighbours of `list`, inserts the result and returns it. Points join by
    /// maximum: the merged block is usable once both parts are.
    fn insert_merged(&mut self, id: NodeId, list: ListId, point: Point) -> NodeId {
        let Node { before, after, .. } = *self.nodes.get(id);
        let (mut id, mut point) = (id, point);
        if let Some(after) = after
            && let State::Free(its, its_point) = self.nodes.get(after).state
            && its == list
        {
            self.lists[list.index()].remove(&mut self.nodes, after);
            self.absorb_after(id);
            point = point.max(its_point);
        }
        if let Some(before) = before
            && let State::Free(its, its_point) = self.nodes.get(before).state
            && its == list
        {
            self.lists[list.index()].remove(&mut self.nodes, before);
            self.absorb_after(before);
            point = point.max(its_point);
            id = before;
        }
        self.nodes.get_mut(id).state = State::Free(list, point);
        self.lists[list.index()].insert(&mut self.nodes, id);
        id
    }

    /// Makes a block swallow the one after it; both are in no list.
    fn absorb_after(&mut self, id: NodeId) {
        let Some(swallowed) = self.nodes.get(id).after else { return };
        let Node { size, after, .. } = *self.nodes.get(swallowed);
        self.nodes.remove(swallowed);
        if let Some(after) = after {
            self.nodes.get_mut(after).before = Some(id);
        }
        let node = self.nodes.get_mut(id);
        node.size += size;
        node.after = after;
    }

    /// Moves the blocks of a list that were freed no later than `covered` to the clean list, merging them there. Takes time
    /// in the number of the list's blocks.
    pub(super) fn clean(&mut self, list: ListId, covered: Point) {
        if list == ListId::CLEAN {
            return;
        }
        let done: Vec<NodeId> = self.lists[list.index()]
            .iter(&self.nodes)
            .filter(|&id| self.nodes.get(id).point() <= covered)
            .collect();
        for id in done {
            self.lists[list.index()].remove(&mut self.nodes, id);
            self.insert_merged(id, ListId::CLEAN, 0);
        }
    }

    /// Takes a block of `size` bytes out of a run of free neighbours in different lists, all of which `usable` accepts: the
    /// shortest run that is long enough. What is left of the run goes to the list `into` at the point `point`, so that
    /// nobody takes it for less used than it is. Takes time in the number of all blocks.
    pub(super) fn fuse(
        &mut self,
        size: u64,
        into: ListId,
        point: Point,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<NodeId> {
        let mut best: Option<(u64, NodeId)> = None;
        for segment in self.segments.iter().flatten().filter(|segment| segment.size >= size) {
            let mut run: Option<(u64, NodeId)> = None;
            for id in self.blocks_from(segment.first) {
                let Node { state, size: bytes, after, .. } = *self.nodes.get(id);
                run = match state {
                    State::Free(list, freed) if usable(list, freed) => {
                        Some(run.map_or((bytes, id), |(before, start)| (before + bytes, start)))
                    }
                    _ => None,
                };
                let ends_here = after.is_none_or(|after| match self.nodes.get(after).state {
                    State::Free(list, freed) => !usable(list, freed),
                    State::Live | State::Gap | State::Coming | State::Unused => true,
                });
                if let Some((bytes, start)) = run
                    && ends_here
                    && bytes >= size
                    && best.is_none_or(|(known, _)| bytes < known)
                {
                    best = Some((bytes, start));
                }
            }
        }
        let (bytes, start) = best?;
        self.detach(start);
        while self.nodes.get(start).size < bytes {
            let Some(after) = self.nodes.get(start).after else { break };
            self.detach(after);
            self.absorb_after(start);
        }
        let fused = self.insert_merged(start, into, point);
        Some(self.make_live(fused, size))
    }

    /// Takes a free block out of its list.
    fn detach(&mut self, id: NodeId) {
        if let State::Free(list, _) = self.nodes.get(id).state {
            self.lists[list.index()].remove(&mut self.nodes, id);
        }
    }

    fn blocks_from(&self, first: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(Some(first), |&id| self.nodes.get(id).after)
    }

    /// Where a block is.
    pub(super) fn block(&self, id: NodeId) -> Block {
        let Node { segment, offset, size, state, .. } = *self.nodes.get(id);
        let free_in = match state {
            State::Free(list, _) => Some(list),
            State::Live | State::Gap | State::Coming | State::Unused => None,
        };
        Block { segment, offset, size, free_in }
    }

    /// All blocks, by segment and offset, without what is coming.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        self.segments
            .iter()
            .flatten()
            .flat_map(|segment| self.blocks_from(segment.first))
            .filter(|&id| matches!(self.nodes.get(id).state, State::Live | State::Free(..)))
            .map(|id| self.block(id))
    }
}
