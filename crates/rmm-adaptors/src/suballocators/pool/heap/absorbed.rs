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
//! of them marked by [`idle_from`](Node::idle_from). No work has used it since it was idle.
//! Ranges are disjoint.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::Heap;
use super::nodes::{IdleFrom, Node, NodeId, NodeState, SegmentId};
use crate::suballocators::pool::values::units::{ListId, Point};

/// Upper bound on the bytes of an idle block that becomes part of a smaller one that was freed.
pub(super) const TAKEN_IN: u64 = 16 << 20;

/// Idle ranges, by segment and end, and where each starts: most lose memory at their start.
#[derive(Debug, Default)]
pub(super) struct Absorbed(BTreeMap<(SegmentId, u64), u64>);

impl Absorbed {
    fn note(&mut self, segment: SegmentId, start: u64, end: u64) {
        self.0.insert((segment, end), start);
    }

    /// Forgets what is noted of a range: it is used, or idle by its list. Returns where the first
    /// noted range between its end and `limit` lies.
    fn forget(&mut self, segment: SegmentId, start: u64, end: u64, limit: u64) -> IdleFrom {
        let place = |from| if from < limit { IdleFrom::offset(from) } else { IdleFrom::NONE };
        loop {
            let ends = (segment, start + 1)..=(segment, u64::MAX);
            let Some((&(_, to), start_of)) = self.0.range_mut(ends).next() else {
                return IdleFrom::NONE;
            };
            let from = *start_of;
            if from >= end {
                return place(from);
            }
            let goes_on = to > end;
            if goes_on {
                *start_of = end;
            } else {
                self.0.remove(&(segment, to));
            }
            if from < start {
                self.0.insert((segment, start), from);
            }
            if goes_on {
                return place(end);
            }
        }
    }

    /// The noted parts of a range.
    fn parts(&self, segment: SegmentId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let ends = (segment, start + 1)..=(segment, u64::MAX);
        let ranges = self.0.range(ends).map(|(&(_, to), &from)| (from.max(start), to.min(end)));
        ranges.take_while(|&(from, _)| from < end).collect()
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
        let (segment, start, end) = (node.segment, node.offset, node.offset + node.size);
        node.idle_from = IdleFrom::offset(start);
        self.absorbed.note(segment, start, end);
        self.insert_coalesced(id, list, point);
    }

    /// Notes that the first `size` bytes of a marked block are not idle by the table any more: they
    /// are used, or idle by their list. Returns where the first noted memory of the rest lies.
    #[cold]
    pub(super) fn leave_absorbed(&mut self, id: NodeId, size: u64) -> IdleFrom {
        let Node { segment, offset, size: whole, .. } = *self.nodes.get(id);
        self.absorbed.forget(segment, offset, offset + size, offset + whole)
    }

    /// Makes the idle parts of all free blocks idle blocks again, as if none had been absorbed.
    /// O(free blocks) if there are any.
    pub(crate) fn separate_absorbed(&mut self) {
        if self.absorbed.0.is_empty() {
            return;
        }
        let lists = self.lists.with_blocks().filter(|&(list, _)| list != ListId::ANY_STREAM);
        let blocks = lists.flat_map(|(_, list)| list.iter(&self.nodes));
        let marked: Vec<NodeId> =
            blocks.filter(|&id| !self.nodes.get(id).idle_from.is_none()).collect();
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
        self.absorbed.forget(segment, offset, end, end);
        let (list, point) = self.delist(id);
        self.nodes.get_mut(id).idle_from = IdleFrom::NONE;
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
