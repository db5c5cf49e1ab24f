//! The blocks of a short free list in an array, searched from end to end.
//!
//! Most lists are short: a stream has some free blocks, and programs have hundreds of streams. The
//! bins of a list lie on as many cache lines as there are blocks, and more, all of them cold when
//! another stream's turn has come. The array lies on two:
//!
//! ```text
//!     sizes  | 4 | 17 | 1 | 900 | .. |      in granules, 16 of 4 bytes: one line
//!     ids    | 7 |  2 | 9 |  31 | .. |      the records of the blocks: another
//! ```

#![forbid(unsafe_code)]

use super::nodes::NodeId;
use crate::suballocators::pool::values::units::GRANULE;

/// The most blocks in an array.
pub(super) const FEW: usize = 16;

/// A few blocks, in no order.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct FewBlocks {
    /// Granules of each; 0 beyond the last.
    sizes: [u32; FEW],
    ids: [Option<NodeId>; FEW],
}

impl FewBlocks {
    pub(super) const fn new() -> Self {
        Self { sizes: [0; FEW], ids: [None; FEW] }
    }

    /// The granules of a block, if an array can hold it.
    #[inline]
    fn granules(size: u64) -> Option<u32> {
        u32::try_from(size / GRANULE).ok().filter(|&granules| granules < u32::MAX)
    }

    /// Adds a block behind the first `len`. Returns whether there is room for one of this size.
    #[inline]
    pub(super) fn push(&mut self, len: usize, id: NodeId, size: u64) -> bool {
        let (Some(granules), true) = (Self::granules(size), len < FEW) else { return false };
        (self.sizes[len], self.ids[len]) = (granules, Some(id));
        true
    }

    #[inline]
    fn position(&self, len: usize, id: NodeId) -> usize {
        let position = self.ids[..len].iter().position(|&its| its == Some(id));
        position.expect("a block of the list is in its array")
    }

    /// Removes a block; the last of `len` takes its place.
    #[inline]
    pub(super) fn remove(&mut self, len: usize, id: NodeId) {
        let position = self.position(len, id);
        (self.sizes[position], self.ids[position]) = (self.sizes[len - 1], self.ids[len - 1]);
        (self.sizes[len - 1], self.ids[len - 1]) = (0, None);
    }

    /// Changes the size of a block. Returns whether an array can hold it.
    #[inline]
    pub(super) fn resize(&mut self, len: usize, id: NodeId, size: u64) -> bool {
        let position = self.position(len, id);
        let granules = Self::granules(size);
        self.sizes[position] = granules.unwrap_or(self.sizes[position]);
        granules.is_some()
    }

    /// The smallest block of at least `size` bytes that `is_usable` accepts.
    #[inline]
    pub(super) fn find(
        &self,
        len: usize,
        size: u64,
        is_usable: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let wanted = Self::granules(size)?.max(1);
        let (mut best, mut position) = (u32::MAX, None);
        for (index, &size) in self.sizes[..len].iter().enumerate() {
            if wanted <= size && size <= best {
                (best, position) = (size, Some(index));
            }
        }
        let best = self.ids[position?]?;
        if is_usable(best) { Some(best) } else { self.find_usable(wanted, is_usable) }
    }

    /// The smallest block of at least `wanted` granules that `is_usable` accepts, where the best
    /// fit is not usable.
    #[cold]
    fn find_usable(&self, wanted: u32, is_usable: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let blocks = self.sizes.iter().zip(&self.ids).filter(|&(&size, _)| size >= wanted);
        let blocks = blocks.filter_map(|(&size, &id)| Some((size, id?)));
        blocks.filter(|&(_, id)| is_usable(id)).min_by_key(|&(size, _)| size).map(|(_, id)| id)
    }

    /// All blocks.
    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.ids.iter().copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::nodes::{IdleFrom, Node, NodeState, Nodes, SegmentId};
    use super::super::zones::Zone;
    use super::*;

    fn ids(count: usize) -> Vec<NodeId> {
        let mut nodes = Nodes::default();
        let [before, after, previous, next] = [None; 4];
        let (segment, state) = (SegmentId(0), NodeState::Live);
        let zone = Zone::Large;
        let node = Node {
            segment,
            offset: 0,
            size: 256,
            state,
            zone,
            idle_from: IdleFrom::NONE,
            before,
            after,
            previous,
            next,
        };
        (0..count).map(|_| nodes.insert(node)).collect()
    }

    #[test]
    fn the_smallest_block_that_fits_and_is_usable_is_found() {
        let (ids, mut few) = (ids(4), FewBlocks::new());
        for (len, (&id, granules)) in ids.iter().zip([9, 3, 5, 3]).enumerate() {
            assert!(few.push(len, id, granules * GRANULE));
        }
        let find = |few: &FewBlocks, granules: u64| few.find(4, granules * GRANULE, |_| true);
        assert_eq!(
            [2, 4, 6, 10].map(|granules| find(&few, granules)),
            [Some(ids[3]), Some(ids[2]), Some(ids[0]), None]
        );
        assert_eq!(few.find(4, 4 * GRANULE, |id| id != ids[2]), Some(ids[0]));
        assert_eq!(few.find(4, 4 * GRANULE, |_| false), None);
        assert!(few.resize(4, ids[0], 4 * GRANULE));
        assert_eq!(find(&few, 4), Some(ids[0]));
        few.remove(4, ids[0]);
        assert_eq!(find(&few, 4), Some(ids[2]));
        assert_eq!(few.iter().collect::<Vec<_>>(), [ids[3], ids[1], ids[2]]);
    }

    #[test]
    fn an_array_has_room_for_few_blocks_and_none_beyond_a_tebibyte() {
        let (ids, mut few) = (ids(FEW + 1), FewBlocks::new());
        assert!(!few.push(0, ids[0], u64::from(u32::MAX) * GRANULE));
        for (len, &id) in ids.iter().enumerate() {
            assert_eq!(few.push(len, id, GRANULE), len < FEW);
        }
        assert!(!few.resize(FEW, ids[3], u64::MAX));
        assert_eq!(few.find(FEW, u64::MAX, |_| true), None);
    }
}
