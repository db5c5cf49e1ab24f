//! Whether a large allocation would split a free range that coalescing could keep whole.

#![forbid(unsafe_code)]

use super::Heap;
use super::nodes::{NodeId, NodeState};
use super::zones::Tier;
use crate::suballocators::pool::values::units::ListId;

impl Heap {
    /// Whether [`take_own_or_idle`](Self::take_own_or_idle) would split a block that has free
    /// neighbours, on any list.
    pub(crate) fn would_divide(&self, list: ListId, size: u64) -> bool {
        let find = |list: ListId| {
            self.lists[list.index()].find(&self.nodes, Tier::Large, size, usize::MAX, |_| true)
        };
        let is_free = |id: Option<NodeId>| {
            id.is_some_and(|id| matches!(self.nodes.get(id).state, NodeState::Free(..)))
        };
        find(list).or_else(|| find(ListId::ANY_STREAM)).is_some_and(|id| {
            let node = self.nodes.get(id);
            node.size > size && (is_free(node.before) || is_free(node.after))
        })
    }
}
