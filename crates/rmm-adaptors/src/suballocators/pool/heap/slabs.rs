//! Slabs: how small blocks are taken out of them, and free parts are large again.
//! [`zones`](super::zones) says what they are for.

#![forbid(unsafe_code)]

use super::Heap;
use super::nodes::{Node, NodeId, NodeState};
use super::zones::{Tier, Zone};
use crate::suballocators::pool::values::units::ListId;

/// The largest block that is taken out of a slab is this fraction of it: the largest that thread
/// caches have a size class for.
const SMALL_FRACTION: u64 = 2;

impl Heap {
    /// The tiers for a request of `size` bytes.
    #[inline]
    pub(super) fn tiers(&self, size: u64) -> &'static [Tier] {
        if size > self.slabs.bytes / SMALL_FRACTION {
            &Tier::OF_LARGE
        } else if self.makes_slabs() {
            &Tier::OF_SMALL
        } else {
            &Tier::OF_SMALL_WITHOUT_SLABS
        }
    }

    /// Whether the heap is large enough for a slab of each stream.
    #[inline]
    fn makes_slabs(&self) -> bool {
        self.slabs.are_made
            && self.reserved >= self.slabs.heap_for_each.saturating_mul(self.lists.len() as u64)
    }

    /// The least bytes of a block of a tier for a request of `size` bytes.
    #[inline]
    pub(super) fn least_of(&self, tier: Tier, size: u64) -> u64 {
        if tier == Tier::NewSlab { self.slabs.bytes } else { size }
    }

    /// The block out of which a request is served that found one in a tier: a new slab, if that is
    /// what the tier is for.
    pub(super) fn of_tier(&mut self, id: NodeId, tier: Tier) -> NodeId {
        if tier == Tier::NewSlab { self.cut_slab(id) } else { id }
    }

    /// Makes the first bytes of a large free block a slab in the same list. Where the slab ends
    /// with the block, it takes in the part of a slab that is free behind it.
    fn cut_slab(&mut self, id: NodeId) -> NodeId {
        let (list, mut point) = self.delist(id);
        let slab = self.slabs.bytes;
        if self.nodes.get(id).size > slab {
            let rest = self.split(id, slab);
            self.enlist(rest, list, point);
        } else if let Some(after) = self.nodes.get(id).after {
            let Node { state, zone, .. } = *self.nodes.get(after);
            if let (NodeState::Free(its, freed), Zone::Small) = (state, zone)
                && its == list
            {
                self.delist(after);
                self.merge_next(id);
                point = point.max(freed);
            }
        }
        self.nodes.get_mut(id).zone = Zone::Small;
        self.enlist(id, list, point);
        id
    }

    /// Makes a free part of a slab large again if it has as many bytes as a slab, or no other part
    /// of a slab beside it. Returns the block that it is in.
    #[inline]
    pub(super) fn enlarge_if_alone(&mut self, id: NodeId) -> NodeId {
        let Node { size, zone, before, after, .. } = *self.nodes.get(id);
        let is_small = |neighbour: Option<NodeId>| {
            neighbour.is_some_and(|neighbour| self.nodes.get(neighbour).zone == Zone::Small)
        };
        if zone == Zone::Large || size < self.slabs.bytes && (is_small(before) || is_small(after)) {
            return id;
        }
        self.enlarge(id)
    }

    /// Makes the free neighbours of a large block large, if they are in its list and the last parts
    /// of their slab.
    #[inline]
    pub(super) fn enlarge_neighbours(&mut self, id: NodeId, list: ListId) {
        let Node { before, after, .. } = *self.nodes.get(id);
        for neighbour in before.into_iter().chain(after) {
            let node = self.nodes.get(neighbour);
            let is_small = node.zone == Zone::Small;
            if is_small && matches!({ node.state }, NodeState::Free(its, _) if its == list) {
                self.enlarge_last(neighbour, id);
            }
        }
    }

    /// Makes a free part of a slab large if no other is on the side away from `large`, which is
    /// detached: the part joins the large block that may be there.
    #[cold]
    fn enlarge_last(&mut self, id: NodeId, large: NodeId) {
        let Node { before, after, .. } = *self.nodes.get(id);
        let far = if before == Some(large) { after } else { before };
        if far.is_none_or(|far| self.nodes.get(far).zone == Zone::Large) {
            self.enlarge(id);
        }
    }

    /// Makes idle parts of slabs large that share a piece with large idle memory, wherever that may
    /// free a piece: the piece is found in one block then.
    ///
    /// A large block lies between at most two idle parts of slabs, and such a part has at most one
    /// large neighbour (see [`Heap::enlarge_if_alone`]). So memory that contains a piece has a
    /// block of a third of it. O(idle blocks that large).
    pub(super) fn join_pieces(&mut self) {
        let heap = &*self;
        let neighbours = |id: NodeId| {
            let Node { before, after, .. } = *heap.nodes.get(id);
            before.into_iter().chain(after).filter(move |&other| heap.shares_piece(id, other))
        };
        let idle = &self.lists[ListId::ANY_STREAM.index()];
        let mut joined = Vec::new();
        for id in idle.iter_from(&self.nodes, self.smallest_piece / 3) {
            match self.nodes.get(id).zone {
                Zone::Large => joined.extend(neighbours(id)),
                Zone::Small => joined.extend(neighbours(id).flat_map(neighbours)),
            }
        }
        for id in joined {
            // An earlier one may have taken it in.
            let node = self.nodes.get(id);
            if node.zone == Zone::Small && matches!(node.state, NodeState::Free(..)) {
                self.enlarge(id);
            }
        }
    }

    /// Whether the neighbour of an idle block is idle, of the other zone, and in the same piece
    /// where they meet.
    fn shares_piece(&self, id: NodeId, neighbour: NodeId) -> bool {
        let (node, other) = (self.nodes.get(id), self.nodes.get(neighbour));
        node.zone != other.zone
            && matches!(other.state, NodeState::Free(ListId::ANY_STREAM, _))
            && !self.segment(node.segment).pieces.contains_key(&node.offset.max(other.offset))
    }

    /// Makes a free part of a slab large.
    fn enlarge(&mut self, id: NodeId) -> NodeId {
        let (list, point) = self.delist(id);
        self.nodes.get_mut(id).zone = Zone::Large;
        self.insert_coalesced(id, list, point)
    }
}
