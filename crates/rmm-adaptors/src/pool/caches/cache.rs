//! What one cache holds: addresses of blocks, by class, the newest first.

#![forbid(unsafe_code)]

use std::ops::AddAssign;

use rmm_core::StreamId;

use super::super::heap::GRANULE;
use super::classes::{CLASSES, Class};

/// The most blocks that a cache holds.
const MOST_BLOCKS: u16 = 2048;

/// Requests in vain after which blocks are added before they are asked for.
const MANY_MISSES: u32 = 8;
/// Bytes that are added then.
const ADDED_BYTES: u64 = 64 << 10;

/// Stands for no entry. Above every entry's number.
const NONE: u16 = u16::MAX;

/// Aligned so that none lies across two of the processor's cache lines: what was written as a whole is read at once in parts.
#[derive(Debug)]
#[repr(align(16))]
struct Entry {
    address: u64,
    /// The block's size.
    granules: u32,
    /// The next of its class, or of those that are not used.
    next: u16,
}

/// Blocks that are free for a stream's next use of their size. For the heap they are live.
#[derive(Debug)]
pub(super) struct Cache {
    /// Whose blocks they are.
    stream: StreamId,
    /// Index: a class's number. Its newest entry.
    newest: [u16; CLASSES],
    entries: Vec<Entry>,
    unused: u16,
    blocks: u16,
    bytes: u64,
    /// Requests since the last free that found nothing.
    misses: u32,
    counts: CacheCounts,
}

/// What went on in a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in super::super) struct CacheCounts {
    /// Blocks handed out of it.
    pub(in super::super) taken: u64,
    /// Blocks that were freed into it.
    pub(in super::super) put: u64,
}

impl AddAssign for CacheCounts {
    fn add_assign(&mut self, other: Self) {
        self.taken += other.taken;
        self.put += other.put;
    }
}

impl Cache {
    pub(super) fn new(stream: StreamId) -> Self {
        Self {
            stream,
            newest: [NONE; CLASSES],
            // Later growth would be a request to the host's heap in the midst of a program's steady state.
            entries: Vec::with_capacity(usize::from(MOST_BLOCKS)),
            unused: NONE,
            blocks: 0,
            bytes: 0,
            misses: 0,
            counts: CacheCounts::default(),
        }
    }

    /// Makes it another stream's; it is empty.
    pub(super) fn pass_to(&mut self, stream: StreamId) {
        self.stream = stream;
    }

    /// Bytes of the blocks in it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Host bytes that it takes.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        (size_of::<Self>() + self.entries.capacity() * size_of::<Entry>()) as u64
    }

    pub(super) fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Takes the newest block of a class.
    #[inline]
    pub(super) fn take(&mut self, class: Class) -> Option<u64> {
        let address = self.remove(class.index());
        match address {
            Some(_) => self.counts.taken += 1,
            None => self.misses += 1,
        }
        address
    }

    #[inline]
    fn remove(&mut self, class: usize) -> Option<u64> {
        let newest = &mut self.newest[class];
        let entry = self.entries.get_mut(usize::from(*newest))?;
        let number = std::mem::replace(newest, entry.next);
        entry.next = std::mem::replace(&mut self.unused, number);
        self.blocks -= 1;
        self.bytes -= u64::from(entry.granules) * GRANULE;
        Some(entry.address)
    }

    /// How many blocks of the class should be put in before they are asked for: a thread that asks over and over and frees nothing
    /// will go on with that.
    pub(super) fn shortage(&self, class: Class) -> u64 {
        if self.misses < MANY_MISSES { 0 } else { ADDED_BYTES / class.block_size() }
    }

    /// Puts a block in that was freed, if it does not make it hold more than `most_bytes`, and there is room.
    #[inline]
    pub(super) fn put(&mut self, class: Class, address: u64, most_bytes: u64) -> bool {
        let is_put = self.add(class, address, most_bytes);
        self.counts.put += u64::from(is_put);
        self.misses = 0;
        is_put
    }

    /// As [`put`](Self::put), of a block that comes from the heap.
    #[inline]
    pub(super) fn add(&mut self, class: Class, address: u64, most_bytes: u64) -> bool {
        let granules = class.granules();
        let size = u64::from(granules) * GRANULE;
        if self.blocks == MOST_BLOCKS || self.bytes + size > most_bytes {
            return false;
        }
        let newest = &mut self.newest[class.index()];
        if let Some(entry) = self.entries.get_mut(usize::from(self.unused)) {
            let number = std::mem::replace(&mut self.unused, entry.next);
            *entry = Entry { address, granules, next: std::mem::replace(newest, number) };
        } else {
            // All entries are used, so they are as many as the blocks.
            self.entries.push(Entry { address, granules, next: *newest });
            *newest = self.blocks;
        }
        self.blocks += 1;
        self.bytes += size;
        true
    }

    /// Whether a block of the class with this address is in it.
    pub(super) fn contains(&self, class: Class, address: u64) -> bool {
        let entry = |number: u16| self.entries.get(usize::from(number));
        let below = |number: &u16| entry(*number).map(|entry| entry.next);
        let mut numbers = std::iter::successors(Some(self.newest[class.index()]), below);
        numbers.any(|number| entry(number).is_some_and(|entry| entry.address == address))
    }

    /// Passes up to `most` blocks on, those of `class` before others.
    pub(super) fn spill(&mut self, class: Class, most: usize, mut to: impl FnMut(StreamId, u64)) {
        let mut left = most;
        for class in std::iter::once(class.index()).chain(0..CLASSES) {
            while left > 0
                && let Some(address) = self.remove(class)
            {
                to(self.stream, address);
                left -= 1;
            }
        }
    }

    /// Passes all blocks on.
    pub(super) fn drain(&mut self, to: impl FnMut(StreamId, u64)) {
        self.spill(Class::only(0), usize::MAX, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_BYTES: u64 = 64 << 20;
    const SMALL: u64 = 256;
    const LARGE: u64 = 1 << 20;

    fn cache() -> Cache {
        Cache::new(rmm_core::StreamRef::legacy().id())
    }

    fn spill(cache: &mut Cache, class: Class, most: usize) -> Vec<u64> {
        let mut spilt = Vec::new();
        cache.spill(class, most, |_, address| spilt.push(address));
        spilt
    }

    fn classes() -> [Class; 2] {
        [SMALL, LARGE].map(|size| Class::holding(size).expect("both are cached"))
    }

    #[test]
    fn the_newest_of_its_class_comes_first() {
        let ([small, large], mut cache) = (classes(), cache());
        for address in [1, 2, 3] {
            assert!(cache.put(small, address, MOST_BYTES));
        }
        assert!(cache.put(large, 4, MOST_BYTES));
        assert_eq!(cache.bytes(), 3 * SMALL + LARGE);
        assert!(cache.contains(small, 1) && cache.contains(large, 4));
        assert!(!cache.contains(small, 4) && !cache.contains(large, 1));
        assert_eq!(cache.take(small), Some(3));
        assert!(cache.put(large, 5, MOST_BYTES), "in the place of the one that went");
        let taken = [large, large, large].map(|class| cache.take(class));
        assert_eq!(taken, [Some(5), Some(4), None]);
        let taken = [small, small, small].map(|class| cache.take(class));
        assert_eq!(taken, [Some(2), Some(1), None]);
        assert_eq!((cache.bytes(), cache.counts()), (0, CacheCounts { taken: 5, put: 5 }));
    }

    #[test]
    fn it_holds_no_more_than_it_should() {
        let ([small, large], mut cache) = (classes(), cache());
        let put = (0..3000).filter(|&address| cache.put(small, address, MOST_BYTES)).count();
        assert_eq!(put, usize::from(MOST_BLOCKS));
        assert_eq!(spill(&mut cache, small, usize::MAX).len(), put);
        let put = (0..1000).filter(|&address| cache.put(large, address, MOST_BYTES)).count() as u64;
        assert_eq!(put * LARGE, MOST_BYTES);
        assert!(!cache.put(small, 0, MOST_BYTES), "that would be too many bytes");
    }

    #[test]
    fn spilling_begins_with_the_class_that_is_full() {
        let ([small, large], mut cache) = (classes(), cache());
        for address in 0..4 {
            assert!(cache.put(small, address, MOST_BYTES));
            assert!(cache.put(large, 10 + address, MOST_BYTES));
        }
        assert_eq!(spill(&mut cache, large, 5), [13, 12, 11, 10, 3]);
        assert_eq!(cache.bytes(), 3 * SMALL);
        assert_eq!(cache.take(small), Some(2));
    }
}
