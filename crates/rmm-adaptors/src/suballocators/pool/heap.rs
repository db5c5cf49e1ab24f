//! The heap: free lists, one per stream, over segments of upstream memory.
//!
//! Plain bookkeeping over (segment, offset, size): no address and no device is known here, and no
//! stream, only lists and points. Each free list is a two-level segregated fit (TLSF, Masmano et
//! al. 2004) with boundary tags (Knuth) for coalescing.
//!
//! ```text
//!   segment  |  live  | free, list 2 | live | free, list 2 | free, list 5 | gap | idle |
//!   pieces   |------ upstream block ------|----- upstream block -----|           |------|
//!                                          '- a run: neighbours on different lists
//! ```
//!
//! - Blocks tile their segment. Free neighbours of the same list are always coalesced. Neighbours
//!   of different lists are coalesced by [`Heap::coalesce_across_streams`], for a stream that may
//!   use both.
//! - A piece is the memory of one call to upstream: it can be returned once it is idle. A segment
//!   may have gaps, without memory, that are filled again; an extendable one also grows at its end.
//! - The list [`ListId::ANY_STREAM`] holds *idle* blocks, which no work uses.

#![forbid(unsafe_code)]

mod absorb;
mod absorbed;
mod bins;
mod claim;
mod coalesce;
mod cursor;
mod extend;
mod few;
mod free_list;
mod lists;
mod nodes;
mod pieces;
mod runs;
mod slabs;
mod split;
#[cfg(test)]
mod tests;
mod window;
mod would_split;
mod zones;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::values::units::{ListId, Point};
#[cfg(test)]
use absorb::TAKEN_IN;
use absorbed::Absorbed;
pub(crate) use cursor::BlockCursor;
pub(crate) use extend::PendingExtent;
use lists::Lists;
use nodes::{IdleFrom, Node, NodeState, Nodes};
pub(crate) use nodes::{NodeId, SegmentId};
pub(crate) use pieces::Piece;
use runs::Runs;
use zones::{SlabSizes, Tier, Zone};

/// A block, as seen from outside of the heap.
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
    /// The offset at which the last block ends. That block is not a gap.
    size: u64,
    /// # Invariant
    /// The block at offset 0.
    first: NodeId,
    /// The block that ends at `size`.
    last: NodeId,
    /// Offsets and sizes. Everything but gaps and reserved ranges lies in pieces.
    pieces: BTreeMap<u64, u64>,
    extension: Extension,
}

/// Where a segment can grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extension {
    Nowhere,
    /// In its gaps: the addresses behind its end are taken.
    InGaps,
    Anywhere,
}

/// The pool's memory, block by block.
#[derive(Debug)]
pub(crate) struct Heap {
    nodes: Nodes,
    lists: Lists,
    /// Index: [`SegmentId`]. A removed segment leaves its number to the next one.
    segments: Vec<Option<Segment>>,
    /// The numbers of removed segments.
    spare_segments: BinaryHeap<Reverse<u32>>,
    /// Free neighbours in different lists.
    runs: Runs,
    absorbed: Absorbed,
    /// All gaps.
    gaps: BTreeMap<(SegmentId, u64), NodeId>,
    /// Lower bound on the bytes of every piece.
    smallest_piece: u64,
    /// Whether no piece counts as unused: none leaves the heap before its end.
    pub(crate) keeps_pieces: bool,
    reserved: u64,
    live: u64,
    /// Whether searches favour space over time.
    is_thorough: bool,
    /// Lists of other streams that were searched, and blocks that were examined to be reclaimed.
    #[cfg(test)]
    pub(crate) steps: usize,
    slabs: SlabSizes,
}

impl Node {
    fn point(&self) -> Point {
        match self.state {
            NodeState::Free(_, point) => point,
            NodeState::Live | NodeState::Gap | NodeState::Detached | NodeState::Unused => 0,
        }
    }
}

/// Upper bound on the bins that a search of another stream's list examines, since not every block
/// in them is usable.
const FOREIGN_BINS: usize = 8;

/// The number of free blocks of which the one at the lowest place gets a new slab.
const LOWEST_OF: usize = 64;

impl Heap {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Nodes::default(),
            lists: Lists::new(),
            segments: Vec::new(),
            spare_segments: BinaryHeap::new(),
            runs: Runs::new(),
            absorbed: Absorbed::default(),
            gaps: BTreeMap::new(),
            smallest_piece: u64::MAX,
            keeps_pieces: false,
            reserved: 0,
            live: 0,
            is_thorough: false,
            #[cfg(test)]
            steps: 0,
            slabs: SlabSizes::default(),
        }
    }

    /// Examines more candidates for a good fit from now on.
    pub(crate) fn look_closer(&mut self) {
        self.is_thorough = true;
        self.lists.look_closer();
    }

    /// Bytes of all segments.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Bytes of all live blocks.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Host bytes of the metadata.
    pub(crate) fn bookkeeping_bytes(&self) -> u64 {
        let pieces: usize = self.segments.iter().flatten().map(|entry| entry.pieces.len()).sum();
        let segments = self.segments.capacity() * size_of::<Option<Segment>>();
        // A tree's nodes are a quarter empty or less, mostly.
        let pieces = pieces * size_of::<(u64, u64)>() * 4 / 3;
        let gaps = self.gaps.len() * size_of::<((SegmentId, u64), NodeId)>() * 4 / 3;
        let spare = self.spare_segments.capacity() * size_of::<u32>();
        self.nodes.bookkeeping_bytes()
            + self.lists.bookkeeping_bytes()
            + self.runs.bookkeeping_bytes()
            + self.absorbed.bookkeeping_bytes()
            + (segments + pieces + gaps + spare) as u64
    }

    /// Keeps the first `lists` lists (the others must be empty), and frees host memory that the
    /// metadata does not need now.
    pub(crate) fn shrink_to(&mut self, lists: usize) {
        self.nodes.shrink();
        self.lists.shrink_to(lists);
    }

    /// Bytes free in a list.
    pub(crate) fn free_bytes(&self, list: ListId) -> u64 {
        self.lists[list.index()].bytes()
    }

    pub(crate) fn is_empty(&self, list: ListId) -> bool {
        self.lists[list.index()].is_empty()
    }

    /// Bytes of the largest free block.
    pub(crate) fn largest_free(&self) -> u64 {
        self.lists.largest(&self.nodes)
    }

    /// Adds an empty list.
    pub(crate) fn add_list(&mut self) -> ListId {
        self.lists.add()
    }

    /// Whether more than one stream has had a list.
    pub(crate) fn is_of_several_streams(&self) -> bool {
        self.lists.len() > 2
    }

    /// The lists that hold blocks, without the idle one.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = ListId> + '_ {
        self.lists.occupied()
    }

    /// A cursor over the lists that hold blocks, without the idle one: `next` is 0 at first, and is
    /// advanced by each call. The lists may change between calls.
    pub(crate) fn next_occupied(&mut self, next: &mut usize) -> Option<ListId> {
        self.lists.next_occupied(next)
    }

    /// Makes the next pass begin with the list at this position.
    pub(crate) fn begin_with(&mut self, position: usize) {
        self.lists.begin_with(position);
    }

    /// Adds a segment, one idle block, that consists of pieces of these sizes.
    pub(crate) fn add_segment(&mut self, sizes: &[u64]) -> SegmentId {
        let mut size = 0;
        let mut pieces = BTreeMap::new();
        for &piece in sizes {
            pieces.insert(size, piece);
            size += piece;
        }
        let spare = self.spare_segments.pop().map(|Reverse(index)| SegmentId(index));
        let segment = spare.unwrap_or_else(|| {
            self.segments.push(None);
            let index = u32::try_from(self.segments.len() - 1);
            SegmentId(index.expect("there are fewer than 2^32 segments"))
        });
        let first = self.nodes.insert(Node {
            segment,
            offset: 0,
            size,
            state: NodeState::Detached,
            zone: Zone::Large,
            idle_from: IdleFrom::NONE,
            before: None,
            after: None,
            previous: None,
            next: None,
        });
        self.segments[segment.index()] =
            Some(Segment { size, first, last: first, pieces, extension: Extension::Nowhere });
        self.enlist(first, ListId::ANY_STREAM, 0);
        let smallest = sizes.iter().copied().min().unwrap_or(u64::MAX);
        self.smallest_piece = smallest.min(self.smallest_piece);
        self.reserved += size;
        segment
    }

    /// A segment that exists.
    fn segment(&self, id: SegmentId) -> &Segment {
        self.segments[id.index()].as_ref().expect("a segment stays while it has blocks")
    }

    fn segment_mut(&mut self, id: SegmentId) -> &mut Segment {
        self.segments[id.index()].as_mut().expect("a segment stays while it has blocks")
    }

    /// Takes a block of `size` bytes from a list: the best fit among a few candidates.
    pub(crate) fn take(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        let (id, tier) =
            self.tiers(size).iter().find_map(|&tier| self.find_in(list, size, tier))?;
        let id = self.of_tier(id, tier);
        Some(self.make_live(id, size))
    }

    /// The best fit among a few candidates of a tier, and the tier.
    #[inline]
    fn find_in(&self, list: ListId, size: u64, tier: Tier) -> Option<(NodeId, Tier)> {
        let least = self.least_of(tier, size);
        let list = &self.lists[list.index()];
        let found = if tier == Tier::NewSlab {
            self.lowest(list.iter_zone_from(&self.nodes, Zone::Large, least), least)
        } else {
            list.find(&self.nodes, tier, least, usize::MAX, |_| true)
        };
        Some((found?, tier))
    }

    /// The block of at least `size` bytes at the lowest place, of the first few.
    fn lowest(&self, blocks: impl Iterator<Item = NodeId>, size: u64) -> Option<NodeId> {
        let large = blocks.take(LOWEST_OF).filter(|&id| self.nodes.get(id).size >= size);
        large.min_by_key(|&id| {
            let Node { segment, offset, .. } = *self.nodes.get(id);
            (segment, offset)
        })
    }

    /// Takes a block of `size` bytes from a list, if it was freed no later than `covered`, or else
    /// from the idle list; where space counts, from the one with the better fit.
    pub(crate) fn take_own_or_idle(
        &mut self,
        list: ListId,
        covered: Point,
        size: u64,
    ) -> Option<NodeId> {
        if covered != Point::MAX {
            let own = self.take_visible(list, size, covered);
            return own.or_else(|| self.take(ListId::ANY_STREAM, size));
        }
        let is_close = (self.is_thorough || self.slabs.are_made) && list != ListId::ANY_STREAM;
        let (id, tier) = self.tiers(size).iter().find_map(|&tier| {
            let own = self.find_in(list, size, tier);
            if own.is_some() && !is_close {
                return own;
            }
            let clean = self.find_in(ListId::ANY_STREAM, size, tier);
            let size_of = |found: (NodeId, Tier)| self.nodes.get(found.0).size;
            match (own, clean) {
                (Some(own), Some(clean)) if size_of(clean) < size_of(own) => Some(clean),
                (own, clean) => own.or(clean),
            }
        })?;
        let id = self.of_tier(id, tier);
        Some(self.make_live(id, size))
    }

    /// Takes a block of `size` bytes that was freed no later than `covered`, if a bounded search
    /// finds one.
    pub(crate) fn take_visible(
        &mut self,
        list: ListId,
        size: u64,
        covered: Point,
    ) -> Option<NodeId> {
        #[cfg(test)]
        {
            self.steps += 1;
        }
        let list = &self.lists[list.index()];
        if covered < list.oldest() {
            return None;
        }
        let is_covered = |point| point <= covered;
        let (id, tier) = self.tiers(size).iter().find_map(|&tier| {
            let least = self.least_of(tier, size);
            Some((list.find(&self.nodes, tier, least, FOREIGN_BINS, is_covered)?, tier))
        })?;
        let id = self.of_tier(id, tier);
        Some(self.make_live(id, size))
    }

    /// The block that [`take`](Self::take) would take, and its point.
    pub(crate) fn fit(&self, list: ListId, size: u64) -> Option<(NodeId, Point)> {
        let tiers = [Tier::Large, Tier::Slabs];
        let (id, _) = tiers.iter().find_map(|&tier| self.find_in(list, size, tier))?;
        Some((id, self.nodes.get(id).point()))
    }

    /// Makes the first `size` bytes of a free block, which has at least as many, a live block. The
    /// remainder stays in its list at its point, and mostly in its position there.
    pub(crate) fn make_live(&mut self, id: NodeId, size: u64) -> NodeId {
        let Node { segment, offset, size: whole, state, zone, idle_from, before, .. } =
            *self.nodes.get(id);
        let NodeState::Free(list, _) = state else {
            unreachable!("only a block that is free is taken out of a list")
        };
        self.live += size;
        if idle_from.is_within(offset, size) {
            self.nodes.get_mut(id).idle_from = self.leave_absorbed(id, size);
        }
        if whole == size {
            self.unlink(id, list);
            let node = self.nodes.get_mut(id);
            node.state = NodeState::Live;
            node.idle_from = IdleFrom::NONE;
            return id;
        }
        self.runs.part(&self.nodes, id);
        self.lists[list.index()].resize(&mut self.nodes, id, whole - size);
        let (after, state) = (Some(id), NodeState::Live);
        let [previous, next] = [None; 2];
        let idle_from = IdleFrom::NONE;
        let taken =
            Node { segment, offset, size, state, zone, idle_from, before, after, previous, next };
        let taken = self.nodes.insert(taken);
        let rest = self.nodes.get_mut(id);
        rest.offset = offset + size;
        rest.before = Some(taken);
        self.set_after(before, segment, taken);
        self.runs.join(&self.nodes, id);
        taken
    }

    /// Makes `id` the block after `before`, or the first block of the segment.
    fn set_after(&mut self, before: Option<NodeId>, segment: SegmentId, id: NodeId) {
        match before {
            Some(before) => self.nodes.get_mut(before).after = Some(id),
            None => self.segment_mut(segment).first = id,
        }
    }

    /// Adds a detached block to a list. None of its neighbours may be in that list.
    fn enlist(&mut self, id: NodeId, list: ListId, point: Point) {
        self.nodes.note_change();
        self.nodes.get_mut(id).state = NodeState::Free(list, point);
        self.lists.insert(list, &mut self.nodes, id);
        self.runs.join(&self.nodes, id);
    }

    /// Takes a free block out of its list. Returns the list, and the block's point there.
    fn delist(&mut self, id: NodeId) -> (ListId, Point) {
        let NodeState::Free(list, point) = self.nodes.get(id).state else {
            unreachable!("only a block that is free is taken out of a list")
        };
        self.unlink(id, list);
        self.nodes.get_mut(id).state = NodeState::Detached;
        (list, point)
    }

    /// Takes a free block out of its list. The caller sets its new state.
    fn unlink(&mut self, id: NodeId, list: ListId) {
        self.nodes.note_change();
        self.runs.part(&self.nodes, id);
        self.lists[list.index()].remove(&mut self.nodes, id);
    }

    /// Frees a live block into a list, at a point not below those of the list's other blocks, and
    /// coalesces it with neighbours of that list. Returns the bytes freed, or `None` if the block
    /// is not live.
    pub(crate) fn free(&mut self, id: NodeId, list: ListId, point: Point) -> Option<u64> {
        let node = self.nodes.get_mut(id);
        if !matches!(node.state, NodeState::Live) {
            return None;
        }
        let size = node.size;
        node.state = NodeState::Detached;
        self.live -= size;
        if self.is_extendable() && list != ListId::ANY_STREAM && !self.is_of_several_streams() {
            self.take_in_idle_neighbours(id, list, point);
        }
        self.insert_coalesced(id, list, point);
        Some(size)
    }

    /// Coalesces a detached block with its free neighbours of `list`, and returns the result, which
    /// is in the list. Points join by maximum: the whole is usable once both parts are. A neighbour
    /// mostly keeps its position in the list.
    fn insert_coalesced(&mut self, id: NodeId, list: ListId, point: Point) -> NodeId {
        if self.nodes.get(id).zone == Zone::Large {
            self.enlarge_neighbours(id, list);
        }
        let Node { segment, offset, size, zone, idle_from, before, after, .. } =
            *self.nodes.get(id);
        let is_idle = list == ListId::ANY_STREAM;
        if is_idle && idle_from.is_within(offset, size) {
            self.nodes.get_mut(id).idle_from = self.leave_absorbed(id, size);
        }
        let free_at = |nodes: &Nodes, neighbour: Option<NodeId>| {
            let neighbour = neighbour?;
            let node = nodes.get(neighbour);
            let NodeState::Free(its, point) = node.state else { return None };
            (its == list && node.zone == zone).then_some((neighbour, point))
        };
        let below = free_at(&self.nodes, before);
        let above = free_at(&self.nodes, after);
        let (kept, whole, point) = match (below, above) {
            (None, None) => {
                self.enlist(id, list, point);
                return self.enlarge_if_alone(id);
            }
            (None, Some((above, freed))) => {
                self.runs.part(&self.nodes, above);
                self.nodes.remove(id);
                let node = self.nodes.get_mut(above);
                (node.before, node.offset) = (before, offset);
                if !is_idle {
                    node.idle_from = idle_from.earlier(node.idle_from, offset);
                }
                let whole = size + node.size;
                self.set_after(before, segment, above);
                (above, whole, point.max(freed))
            }
            (Some((below, freed)), above) => {
                let mut point = point.max(freed);
                if let Some((above, freed)) = above {
                    self.unlink(above, list);
                    self.merge_next(id);
                    point = point.max(freed);
                }
                self.runs.part(&self.nodes, below);
                let whole = self.nodes.get(below).size + self.remove_next(below);
                (below, whole, point)
            }
        };
        self.lists[list.index()].resize(&mut self.nodes, kept, whole);
        self.nodes.get_mut(kept).state = NodeState::Free(list, point);
        self.runs.join(&self.nodes, kept);
        self.enlarge_if_alone(kept)
    }

    /// Merges a block with the one after it; both are detached.
    fn merge_next(&mut self, id: NodeId) {
        let size = self.remove_next(id);
        self.nodes.get_mut(id).size += size;
    }

    /// Removes the record of the block after one, which is detached, and returns its bytes, which
    /// the caller adds to a block.
    fn remove_next(&mut self, id: NodeId) -> u64 {
        let Node { segment, after, .. } = *self.nodes.get(id);
        let removed = after.expect("what is absorbed is behind the block");
        let Node { size, after, idle_from, .. } = *self.nodes.get(removed);
        self.nodes.remove(removed);
        let node = self.nodes.get_mut(id);
        node.after = after;
        node.idle_from = idle_from.earlier(node.idle_from, node.offset);
        match after {
            Some(after) => self.nodes.get_mut(after).before = Some(id),
            None => self.segment_mut(segment).last = id,
        }
        size
    }

    /// Moves the blocks of a list that were freed no later than `covered` to the idle list, where
    /// they coalesce. Examines at most `most` blocks; returns how many.
    pub(crate) fn reclaim(&mut self, list: ListId, covered: Point, most: usize) -> usize {
        if list == ListId::ANY_STREAM || self.is_reclaimed(list, covered) {
            return 0;
        }
        let (mut done, mut looked_at, mut oldest) = (Vec::new(), 0, Point::MAX);
        let mut blocks = self.lists[list.index()].iter(&self.nodes);
        for id in blocks.by_ref().take(most) {
            looked_at += 1;
            let point = self.nodes.get(id).point();
            if point <= covered {
                done.push(id);
            } else {
                oldest = oldest.min(point);
            }
        }
        let is_all = blocks.next().is_none();
        drop(blocks);
        for id in done {
            self.delist(id);
            self.insert_coalesced(id, ListId::ANY_STREAM, 0);
        }
        if is_all {
            self.lists[list.index()].note_oldest(oldest);
        }
        #[cfg(test)]
        {
            self.steps += looked_at;
        }
        looked_at
    }

    /// Whether it is known that no block of a list was freed as early as `covered`.
    pub(crate) fn is_reclaimed(&self, list: ListId, covered: Point) -> bool {
        covered < self.lists[list.index()].oldest()
    }

    fn blocks_from(&self, first: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(Some(first), |&id| self.nodes.get(id).after)
    }

    /// Where a block is.
    pub(crate) fn block(&self, id: NodeId) -> Block {
        let Node { segment, offset, size, state, .. } = *self.nodes.get(id);
        let free_in = match state {
            NodeState::Free(list, _) => Some(list),
            NodeState::Live | NodeState::Gap | NodeState::Detached | NodeState::Unused => None,
        };
        Block { segment, offset, size, free_in }
    }

    /// Counts the changes of blocks and lists.
    pub(crate) fn changes(&self) -> u64 {
        self.nodes.changes()
    }
}
