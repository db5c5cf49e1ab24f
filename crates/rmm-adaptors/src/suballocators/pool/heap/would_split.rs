//! Predicts whether a large allocation would split a free range that spans several free lists.

#![forbid(unsafe_code)]

use super::Heap;
use super::nodes::{NodeId, NodeState};
use super::zones::Tier;
use crate::suballocators::pool::values::units::ListId;

impl Heap {
    /// Whether serving `size` bytes from the first fit on `list`, or else on the idle list, would
    /// split a block that has a free neighbour.
    ///
    /// Free neighbours of one list and zone are always coalesced, so such a neighbour is of another
    /// list or zone. If the caller coalesces them first, a smaller block elsewhere may serve the
    /// request, and the range stays whole.
    pub(crate) fn would_split_range(&self, list: ListId, size: u64) -> bool {
        let first_fit = |list: ListId| {
            self.lists[list.index()].find(&self.nodes, Tier::Large, size, usize::MAX, |_| true)
        };
        let is_free = |id: Option<NodeId>| {
            id.is_some_and(|id| matches!(self.nodes.get(id).state, NodeState::Free(..)))
        };
        first_fit(list).or_else(|| first_fit(ListId::ANY_STREAM)).is_some_and(|id| {
            let node = self.nodes.get(id);
            node.size > size && (is_free(node.before) || is_free(node.after))
        })
    }
}
