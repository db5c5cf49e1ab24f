//! How free blocks of the only stream absorb idle memory, and how it is separated from them again.
//! [`absorbed`](super::absorbed) says why.

#![forbid(unsafe_code)]

use super::Heap;
use super::nodes::{IdleFrom, Node, NodeId, NodeState};
use crate::suballocators::pool::values::units::{ListId, Point};

/// Upper bound on the bytes of an idle block that becomes part of a smaller one that was freed.
pub(super) const TAKEN_IN: u64 = 16 << 20;

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
        if self.absorbed.is_empty() {
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
