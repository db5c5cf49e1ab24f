//! Dividing live blocks, for suballocators that hand out parts of them.

#![forbid(unsafe_code)]

use super::Heap;
use super::nodes::{Node, NodeId, State};

impl Heap {
    /// Cuts a live block to `size` bytes and returns the rest, which is a live block of its own; `None` if there is no rest.
    pub(in crate::pool) fn split_live(&mut self, id: NodeId, size: u64) -> Option<NodeId> {
        let Node { segment, offset, size: whole, after, state, .. } = *self.nodes.get(id);
        if state != State::Live || size == 0 || whole <= size {
            return None;
        }
        let rest = self.nodes.insert(Node {
            segment,
            offset: offset + size,
            size: whole - size,
            state: State::Live,
            before: Some(id),
            after,
            previous: None,
            next: None,
        });
        if let Some(after) = after {
            self.nodes.get_mut(after).before = Some(rest);
        }
        let node = self.nodes.get_mut(id);
        node.size = size;
        node.after = Some(rest);
        Some(rest)
    }
}
