//! A few large blocks of any size, the newest first: programs often request the size that they have
//! just freed.

#![forbid(unsafe_code)]

/// Upper bound on large blocks: a cached block does not coalesce with its neighbours.
const MOST: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Block {
    size: u64,
    address: u64,
    /// Whether it waits for an event before its next use.
    is_young: bool,
}

/// Its bytes come first: they are beside what each call of the whole cache uses.
#[derive(Debug)]
#[repr(C)]
pub(super) struct LargeCache {
    bytes: u64,
    count: usize,
    /// The newest first.
    blocks: [Block; MOST],
}

impl LargeCache {
    pub(super) fn new() -> Self {
        Self { blocks: [Block { size: 0, address: 0, is_young: false }; MOST], count: 0, bytes: 0 }
    }

    /// Bytes of all blocks.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the block that the next one takes the place of.
    #[inline]
    pub(super) fn evicted_bytes(&self) -> u64 {
        if self.is_full() { self.blocks[MOST - 1].size } else { 0 }
    }

    /// Takes the newest block of the size that is not young.
    #[inline]
    pub(super) fn take(&mut self, size: u64) -> Option<u64> {
        let mut blocks = self.blocks[..self.count].iter();
        let index = blocks.position(|block| block.size == size && !block.is_young)?;
        Some(self.remove(index).address)
    }

    /// Whether there is a young block of the size.
    pub(super) fn has_young(&self, size: u64) -> bool {
        self.blocks[..self.count].iter().any(|block| block.size == size && block.is_young)
    }

    /// Makes the young blocks as the others.
    pub(super) fn promote(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.is_young = false);
    }

    /// Takes the oldest block; returns its size and address.
    pub(super) fn take_oldest(&mut self) -> Option<(u64, u64)> {
        let oldest = self.remove(self.count.checked_sub(1)?);
        Some((oldest.size, oldest.address))
    }

    fn remove(&mut self, index: usize) -> Block {
        let block = self.blocks[index];
        self.blocks.copy_within(index + 1..self.count, index);
        self.count -= 1;
        self.bytes -= block.size;
        block
    }

    /// Adds a block. Returns the size and address of the oldest, if that is evicted for it.
    #[inline]
    pub(super) fn put(&mut self, size: u64, address: u64, is_young: bool) -> Option<(u64, u64)> {
        let oldest = if self.count == MOST { self.take_oldest() } else { None };
        self.blocks.copy_within(..self.count, 1);
        self.blocks[0] = Block { size, address, is_young };
        self.count += 1;
        self.bytes += size;
        oldest
    }

    /// Whether the next block takes the place of another.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.count == MOST
    }

    #[cfg(test)]
    /// Whether there is a block with this address.
    pub(super) fn contains(&self, address: u64) -> bool {
        self.blocks[..self.count].iter().any(|block| block.address == address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_size_comes_first_and_the_oldest_leaves() {
        let mut large = LargeCache::new();
        for (size, address) in [(10, 1), (20, 2), (10, 3), (30, 4)] {
            assert_eq!(large.put(size, address, false), None);
        }
        assert!(large.contains(1) && !large.contains(5));
        assert_eq!(large.bytes(), 70);
        assert_eq!(large.put(10, 5, false), Some((10, 1)), "it was full");
        assert_eq!(large.bytes(), 70);
        assert_eq!((large.take(40), large.take(10)), (None, Some(5)));
        assert_eq!(large.take_oldest(), Some((20, 2)));
        assert_eq!(large.put(20, 6, false), None);
        assert_eq!((large.take(20), large.take(20)), (Some(6), None));
        assert_eq!((large.take_oldest(), large.take_oldest()), (Some((10, 3)), Some((30, 4))));
        assert_eq!((large.take_oldest(), large.bytes()), (None, 0));
    }

    #[test]
    fn a_young_block_is_not_taken_before_it_is_promoted() {
        let mut large = LargeCache::new();
        for (address, is_young) in [(1, false), (2, true)] {
            assert_eq!(large.put(10, address, is_young), None);
        }
        assert!(large.has_young(10));
        assert_eq!((large.take(10), large.take(10)), (Some(1), None));
        large.promote();
        assert!(!large.has_young(10));
        assert_eq!(large.take(10), Some(2));
    }
}
