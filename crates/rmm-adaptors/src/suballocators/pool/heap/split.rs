//! Splitting blocks.

#![forbid(unsafe_code)]

use super::Heap;
use super::nodes::{IdleFrom, Node, NodeId, NodeState};

impl Heap {
    /// Splits a detached block after `size` bytes, fewer than it has; returns the rest, which is in
    /// the same state.
    #[inline]
    pub(super) fn split(&mut self, id: NodeId, size: u64) -> NodeId {
        let Node { segment, offset, size: whole, state, zone, idle_from, after, .. } =
            *self.nodes.get(id);
        let is_behind = !idle_from.is_within(offset, size);
        let idle_from_rest = if is_behind { idle_from } else { IdleFrom::offset(offset + size) };
        let rest = self.nodes.insert(Node {
            segment,
            offset: offset + size,
            size: whole - size,
            state,
            zone,
            idle_from: idle_from_rest,
            before: Some(id),
            after,
            previous: None,
            next: None,
        });
        match after {
            Some(after) => self.nodes.get_mut(after).before = Some(rest),
            None => self.segment_mut(segment).last = rest,
        }
        let node = self.nodes.get_mut(id);
        node.size = size;
        node.after = Some(rest);
        rest
    }

    /// Splits a live block after `size` bytes and returns the rest, a live block of its own; `None`
    /// if there is no rest. For reservations.
    pub(crate) fn split_live(&mut self, id: NodeId, size: u64) -> Option<NodeId> {
        let Node { size: whole, state, .. } = *self.nodes.get(id);
        let is_cut = state == NodeState::Live && (1..whole).contains(&size);
        is_cut.then(|| self.split(id, size))
    }
}
