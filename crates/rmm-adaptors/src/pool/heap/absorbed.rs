//! Idle memory within free blocks of the only stream, which they have absorbed.
//!
//! A block that the only stream frees coalesces with the idle blocks beside it. The whole then
//! waits for the stream's work, although none uses the idle part. A graph needs memory that no work
//! uses, so the heap notes where the idle parts lie, and separates them again for it.
//!
//! ```text
//!   before a free    | live | idle       | live | idle    |
//!   after two        | free, of the stream                |    one block, which holds idle memory
//!   noted                   [------------)      [---------)
//! ```
//!
//! # Invariant
//! A noted range lies in free blocks of streams, or in ranges that are reserved to be extended, all
//! of them marked by [`holds_idle`](Node::holds_idle). No work has used it since it was idle.
//! Ranges are disjoint.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::Heap;
use super::nodes::{ListId, Node, NodeId, NodeState, Point, SegmentId};

/// Upper bound on the bytes of an idle block that becomes part of a smaller one that was freed.
pub(super) const TAKEN_IN: u64 = 16 << 20;

/// Idle ranges, by segment and offset, and where each ends.
#[derive(Debug, Default)]
pub(super) struct Absorbed(BTreeMap<(SegmentId, u64), u64>);

impl Absorbed {
    fn note(&mut self, segment: SegmentId, start: u64, end: u64) {
        self.0.insert((segment, start), end);
    }

    /// Forgets what is noted of a range: it is used, or idle by its list.
    fn forget(&mut self, segment: SegmentId, start: u64, end: u64) {
        while let Some((from, to)) = self.last_below(segment, end)
            && to > start
        {
            self.0.remove(&(segment, from));
            if to > end {
                self.0.insert((segment, end), to);
            }
            if from < start {
                self.0.insert((segment, from), start);
                break;
            }
        }
    }

    /// The last range that starts before `end`.
    fn last_below(&self, segment: SegmentId, end: u64) -> Option<(u64, u64)> {
        let (&(_, from), &to) = self.0.range((segment, 0)..(segment, end)).next_back()?;
        Some((from, to))
    }

    /// Whether a part of a range is noted.
    fn is_in(&self, segment: SegmentId, start: u64, end: u64) -> bool {
        start < end && self.last_below(segment, end).is_some_and(|(_, to)| to > start)
    }

    /// The noted parts of a range.
    fn parts(&self, segment: SegmentId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let inside = self.0.range((segment, start)..(segment, end));
        let inside = inside.map(|(&(_, from), &to)| (from, to.min(end)));
        let before = self.last_below(segment, start).filter(|&(_, to)| to > start);
        before.map(|(_, to)| (start, to.min(end))).into_iter().chain(inside).collect()
    }

    /// Host bytes of the table.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        // A tree's nodes are a quarter empty or less, mostly.
        (self.0.len() * size_of::<((SegmentId, u64), u64)>() * 4 / 3) as u64
    }
}

impl Heap {
    /// Moves small idle neighbours of a detached block to the list of the only stream, where they
    /// coalesce with it: no other stream could have used them. A large one stays idle: it would
    /// wait for the stream's work as a whole, and the driver could not have it.
    #[inline]
    pub(super) fn take_in_idle_neighbours(&mut self, id: NodeId, list: ListId, point: Point) {
        let Node { before, after, size, .. } = *self.nodes.get(id);
        for neighbour in before.into_iter().chain(after) {
            let node = self.nodes.get(neighbour);
            let is_idle = matches!({ node.state }, NodeState::Free(ListId::ANY_STREAM, _));
            if is_idle && node.size <= size.max(TAKEN_IN) {
                self.absorb(neighbour, list, point);
            }
        }
    }

    /// Moves an idle block to a stream's list, where it coalesces, and notes that it is idle.
    fn absorb(&mut self, id: NodeId, list: ListId, point: u64) {
        self.delist(id);
        let node = self.nodes.get_mut(id);
        node.holds_idle = true;
        let (segment, start, end) = (node.segment, node.offset, node.offset + node.size);
        self.absorbed.note(segment, start, end);
        self.insert_coalesced(id, list, point);
    }

    /// Notes that the first `size` bytes of a marked block are not idle by the table any more: they
    /// are used, or idle by their list. Returns whether the rest holds idle memory.
    #[cold]
    pub(super) fn leave_absorbed(&mut self, id: NodeId, size: u64) -> bool {
        let Node { segment, offset, size: whole, .. } = *self.nodes.get(id);
        self.absorbed.forget(segment, offset, offset + size);
        self.absorbed.is_in(segment, offset + size, offset + whole)
    }

    /// Makes the idle parts of all free blocks idle blocks again, as if none had been absorbed.
    /// O(free blocks) if there are any.
    pub(in crate::pool) fn separate_absorbed(&mut self) {
        if self.absorbed.0.is_empty() {
            return;
        }
        let lists = self.lists.with_blocks().filter(|&(list, _)| list != ListId::ANY_STREAM);
        let blocks = lists.flat_map(|(_, list)| list.iter(&self.nodes));
        let marked: Vec<NodeId> = blocks.filter(|&id| self.nodes.get(id).holds_idle).collect();
        for id in marked {
            self.separate(id);
        }
    }

    /// Splits a free block into its idle parts and the others, which stay in its list. Those keep
    /// their neighbours, so nothing but idle parts coalesces.
    fn separate(&mut self, id: NodeId) {
        let Node { segment, offset, size, .. } = *self.nodes.get(id);
        let end = offset + size;
        let idle = self.absorbed.parts(segment, offset, end);
        self.absorbed.forget(segment, offset, end);
        let (list, point) = self.delist(id);
        self.nodes.get_mut(id).holds_idle = false;
        let mut rest = Some(id);
        let mut at = offset;
        let ends = idle.iter().flat_map(|&(from, to)| [(from, false), (to, true)]);
        for (until, is_idle) in ends.chain([(end, false)]) {
            let Some(part) = rest.filter(|_| until > at) else { continue };
            rest = (until < end).then(|| self.split(part, until - at));
            at = until;
            if is_idle {
                self.insert_coalesced(part, ListId::ANY_STREAM, 0);
            } else {
                self.enlist(part, list, point);
            }
        }
    }
}
