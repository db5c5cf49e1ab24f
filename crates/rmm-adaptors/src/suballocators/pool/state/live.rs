//! The live blocks by address: a hash table in shards.
//!
//! A hash table that grows moves all of its entries in one call: 80 ms at a million, with the
//! pool's lock held. A shard moves only its own. A table of few blocks is one shard, which stays in
//! the processor's caches.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

use rmm_core::DevicePtr;

use crate::suballocators::pool::heap::NodeId;
use crate::sync::hash::BuildIdHasher;

/// An address in halves: with the number of a block it takes 12 bytes and not 16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Address([u32; 2]);

impl Address {
    #[expect(clippy::cast_possible_truncation, reason = "both halves are kept")]
    #[inline]
    fn of(pointer: DevicePtr) -> Self {
        Self([(pointer.0 >> 32) as u32, pointer.0 as u32])
    }

    fn pointer(self) -> DevicePtr {
        let Self([high, low]) = self;
        DevicePtr(u64::from(high) << 32 | u64::from(low))
    }
}

impl Hash for Address {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self([high, low]) = *self;
        state.write_u64(u64::from(high) << 32 | u64::from(low));
    }
}

type Shard = HashMap<Address, NodeId, BuildIdHasher>;

/// A power of two.
const SHARDS: usize = 64;
/// The number of blocks from which on there is more than one shard.
const SHARDED_FROM: usize = (1 << 14) / 8 * 7;
/// The bits of a hash that name the shard: tables use the lowest ones, and the seven highest.
const SHARD_BITS_FROM: u32 = 48;

/// The live blocks by the addresses that were handed out.
#[derive(Debug)]
pub(crate) struct LiveBlocks {
    /// None before the first block, one while there are few blocks, or as many as [`SHARDS`].
    ///
    /// # Invariant
    /// Their number is 0 or a power of two.
    shards: Box<[Shard]>,
}

impl LiveBlocks {
    pub(crate) fn new() -> Self {
        Self { shards: Box::default() }
    }

    /// The number of an address's shard, where there is any.
    #[inline]
    fn shard(&self, address: Address) -> usize {
        let hash = BuildIdHasher::default().hash_one(address) >> SHARD_BITS_FROM;
        let hash = usize::try_from(hash).expect("16 bits are left");
        // The number of shards is a power of two, or 0, where any index is beyond the end.
        hash & self.shards.len().wrapping_sub(1)
    }

    /// Makes room where there are no shards yet, or too few.
    #[cold]
    fn grow(&mut self) {
        let (count, blocks_each) =
            if self.shards.is_empty() { (1, 0) } else { (SHARDS, SHARDED_FROM / SHARDS) };
        let shard = |_| Shard::with_capacity_and_hasher(blocks_each, BuildIdHasher::default());
        let shards = (0..count).map(shard).collect();
        let blocks = std::mem::replace(&mut self.shards, shards);
        for (address, node) in blocks.into_iter().flatten() {
            let shard = self.shard(address);
            self.shards[shard].insert(address, node);
        }
    }

    /// Adds a block.
    #[inline]
    pub(crate) fn insert(&mut self, pointer: DevicePtr, node: NodeId) {
        if let [only] = &*self.shards {
            if only.len() >= SHARDED_FROM {
                self.grow();
            }
        } else if self.shards.is_empty() {
            self.grow();
        }
        let address = Address::of(pointer);
        let shard = self.shard(address);
        let known = self.shards[shard].insert(address, node);
        debug_assert!(known.is_none(), "an address was handed out twice");
    }

    /// Whether there is a block at an address.
    #[cfg(test)]
    fn contains(&self, pointer: DevicePtr) -> bool {
        let address = Address::of(pointer);
        let shard = self.shards.get(self.shard(address));
        shard.is_some_and(|shard| shard.contains_key(&address))
    }

    /// Removes the block at an address and returns it.
    #[inline]
    pub(crate) fn remove(&mut self, pointer: DevicePtr) -> Option<NodeId> {
        let address = Address::of(pointer);
        let shard = self.shard(address);
        self.shards.get_mut(shard)?.remove(&address)
    }

    /// All blocks, and the addresses that were handed out, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DevicePtr, NodeId)> + '_ {
        let blocks = self.shards.iter().flatten();
        blocks.map(|(address, &node)| (address.pointer(), node))
    }

    /// Removes all blocks, and returns them in no order.
    pub(crate) fn drain(&mut self) -> Vec<(DevicePtr, NodeId)> {
        let blocks = self.shards.iter_mut().flat_map(HashMap::drain);
        blocks.map(|(address, node)| (address.pointer(), node)).collect()
    }

    /// Host bytes of the table.
    pub(crate) fn bookkeeping_bytes(&self) -> u64 {
        // Seven of eight places are used at most, and each has a byte of its own.
        let places = self.shards.iter().map(|shard| shard.capacity().div_ceil(7) * 8);
        let entries = places.sum::<usize>() * (size_of::<(Address, NodeId)>() + 1);
        (entries + size_of_val(&*self.shards)) as u64
    }

    /// Frees host memory that is not needed now.
    pub(crate) fn shrink(&mut self) {
        if self.shards.iter().all(Shard::is_empty) {
            self.shards = Box::default();
        }
        self.shards.iter_mut().for_each(Shard::shrink_to_fit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suballocators::pool::heap::Heap;
    use crate::suballocators::pool::values::units::{GRANULE, ListId};

    #[test]
    fn a_table_without_blocks_takes_no_host_memory() {
        let mut heap = Heap::new();
        heap.add_segment(&[GRANULE]);
        let node = heap.take(ListId::ANY_STREAM, GRANULE).expect("it is free");
        let mut live = LiveBlocks::new();
        assert_eq!((live.bookkeeping_bytes(), live.contains(DevicePtr(256))), (0, false));
        assert_eq!(live.remove(DevicePtr(256)), None);
        live.insert(DevicePtr(256), node);
        live.shrink();
        assert_eq!(live.remove(DevicePtr(256)), Some(node));
        live.shrink();
        assert_eq!(live.bookkeeping_bytes(), 0);
    }

    #[test]
    fn no_shard_holds_much_more_than_its_share() {
        let mut heap = Heap::new();
        heap.add_segment(&[GRANULE]);
        let node = heap.take(ListId::ANY_STREAM, GRANULE).expect("it is free");
        for step in [GRANULE, 2 * GRANULE, 4096, 1 << 20, 2 << 20, 48 << 10] {
            let mut live = LiveBlocks::new();
            let count = 100_000;
            for index in 0..count {
                live.insert(DevicePtr(0x7_0000_0000 + index * step), node);
            }
            let most = live.shards.iter().map(Shard::len).max().expect("there are shards");
            assert!(most < 2 * 100_000 / SHARDS, "{most} in one, with {step} bytes between blocks");
            assert!((0..count).all(|index| live.contains(DevicePtr(0x7_0000_0000 + index * step))));
            assert!(live.remove(DevicePtr(0x7_0000_0000)).is_some());
            assert!(live.remove(DevicePtr(0x7_0000_0000)).is_none());
        }
    }
}
