//! One thread cache: free lists of block addresses by size class, last in first out (as
//! tcmalloc's).

#![forbid(unsafe_code)]

mod spans;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rmm_core::{StreamId, StreamRef};

use super::budget::{Budget, Grant};
use super::classes::{CLASSES, Class};
use super::large::LargeCache;
use super::span::Spans;
use crate::suballocators::pool::values::units::{GRANULE, granules};

/// Upper bound on the blocks of a cache: those of a burst of 2,000 with random sizes, and what is
/// left of the bursts before it. With 2,048 one request in five of such bursts missed.
const MOST_BLOCKS: usize = 3072;

/// Bounds a large block to this fraction of the cache's fraction of the pool. Large blocks do not
/// count in its capacity.
const LARGE_PART: u64 = 2;

/// The same where memory can be extended: it is cached large blocks that make a pool hold more.
const LARGE_PART_OF_DEMAND: u64 = 16;

/// Young blocks for which an event is recorded, when one of them is wanted: it costs as much as
/// some dozens of allocations.
const FENCED_TOGETHER: u32 = 128;

/// While the pool's budget is spent, a cache takes no block above this fraction of its grant: then
/// there is room for one of each size class up to that, 16 in each power of two.
const SCARCE_FRACTION: u64 = 32;

/// Misses since the last free after which the class is in demand.
const MANY_MISSES: u32 = 8;

/// The end of a list. Above every entry's number.
const NONE: u16 = u16::MAX;

/// Aligned so that none crosses a cache line.
#[derive(Debug)]
#[repr(align(16))]
struct Entry {
    address: u64,
    /// The next entry of its class, or of the unused ones.
    next: u16,
}

/// Blocks of one stream that are free for its next use of their size class. The heap counts them
/// as live.
///
/// In the cache of the legacy default stream blocks have two generations. What is freed is *young*:
/// an event has to follow on the stream before the next use. One event serves all young blocks,
/// which are [promoted](Self::promote) then.
///
/// What each call uses lies on one cache line: with hundreds of streams all of it is cold.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Cache {
    stream: StreamId,
    entries: Vec<Entry>,
    /// Misses since the last free.
    misses: u32,
    young_blocks: u32,
    unused: u16,
    /// Whether freed blocks are young at first.
    is_fenced: bool,
    large: LargeCache,
    /// The newest entry of each class, by class number.
    newest: [u16; CLASSES],
    /// The newest young entry of each class.
    young: [u16; CLASSES],
    spans: Spans,
}

/// A block that was in a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CachedBlock {
    pub(crate) address: u64,
    /// The bytes that it counted as there: those of its class. It may have a quarter more.
    pub(crate) size: u64,
}

/// The outcome of a free into a cache. It fits a register: frees that evict a block are frequent,
/// and to pass that block with it, through memory, takes them 5 ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    /// The block is cached. Another one may have been evicted for it.
    Done,
    Refused(Refused),
    /// The block is too large: for the cache, or for its part of caches that are full.
    Never,
}

/// Why a cache has not taken a block which it may take after all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// The cache is full and should be flushed in part.
    Full,
    /// The caches of the pool were found full many times: another cache should be flushed for this
    /// one.
    Starved,
    /// The thread has no cache for the stream.
    NotHere,
}

/// How much of a cache is flushed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlushGoal {
    /// The most blocks that are flushed.
    pub(super) most: usize,
    /// Bytes that may stay.
    pub(super) bytes: u64,
    /// Bytes that may stay in blocks that are not large.
    pub(super) small_bytes: u64,
}

impl FlushGoal {
    /// All blocks.
    pub(super) const ALL: Self = Self { most: usize::MAX, bytes: 0, small_bytes: 0 };

    /// As many blocks as give the cache some room again for a while, but at most `most`.
    pub(super) fn in_part(most: usize, budget: &Budget, grant: &Grant) -> Self {
        let bytes = if budget.is_spent() { grant.bytes() / 4 * 3 } else { u64::MAX };
        Self { most, bytes, small_bytes: budget.capacity() / 4 * 3 }
    }
}

/// Counters of a cache that any thread reads. Written by the thread that is inside its cell.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Bytes of the blocks in it.
    bytes: AtomicU64,
    taken: AtomicU64,
    put: AtomicU64,
    /// Those of `taken` that were large blocks, modulo 2^32.
    large_taken: AtomicU32,
    /// Granules of the free parts of its spans.
    span_granules: AtomicU32,
    /// Granules by which blocks that it handed out exceed the class that they count as from then
    /// on, in all so far, modulo 2^32.
    excess: AtomicU32,
    /// What it may hold.
    pub(super) grant: Grant,
}

/// Counts of the calls that caches served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CacheCounts {
    /// Blocks handed out of them.
    pub(crate) taken: u64,
    /// Blocks that were freed into them.
    pub(crate) put: u64,
    /// Granules by which blocks that were handed out exceed the class that they count as, modulo
    /// 2^32.
    pub(crate) excess: u32,
}

impl Counters {
    /// Bytes of the blocks in the cache.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Calls that the cache served, modulo 2^64.
    pub(super) fn calls(&self) -> u64 {
        let CacheCounts { taken, put, .. } = self.counts();
        taken.wrapping_add(put)
    }

    pub(super) fn counts(&self) -> CacheCounts {
        let [taken, put] = [&self.taken, &self.put].map(|count| count.load(Ordering::Relaxed));
        CacheCounts { taken, put, excess: self.excess.load(Ordering::Relaxed) }
    }

    /// Large blocks handed out so far, modulo 2^32.
    pub(super) fn large_taken(&self) -> u32 {
        self.large_taken.load(Ordering::Relaxed)
    }

    /// Bytes of the free parts of its spans.
    pub(super) fn span_bytes(&self) -> u64 {
        u64::from(self.span_granules.load(Ordering::Relaxed)) * GRANULE
    }

    fn set_span_bytes(&self, bytes: u64) {
        // Their bound is below.
        let granules = u32::try_from(bytes / GRANULE).unwrap_or(u32::MAX);
        self.span_granules.store(granules, Ordering::Relaxed);
    }

    /// Adds to a counter, modulo 2^64, without a read-modify-write: there is one writer at a time.
    #[inline]
    fn add(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

impl Cache {
    pub(super) fn new(stream: StreamId) -> Self {
        Self {
            stream,
            is_fenced: is_fenced(stream),
            newest: [NONE; CLASSES],
            young: [NONE; CLASSES],
            young_blocks: 0,
            // All at once, so that a steady state makes no host allocation.
            entries: Vec::with_capacity(MOST_BLOCKS),
            unused: NONE,
            large: LargeCache::new(),
            misses: 0,
            spans: Spans::default(),
        }
    }

    /// The stream on which its blocks were freed.
    pub(super) fn stream(&self) -> StreamId {
        self.stream
    }

    /// Assigns the cache, which is empty, to another stream.
    pub(super) fn pass_to(&mut self, stream: StreamId) {
        self.stream = stream;
        self.is_fenced = is_fenced(stream);
        (self.misses, self.young_blocks) = (0, 0);
    }

    /// Host bytes of each cache.
    pub(super) const fn bookkeeping_bytes() -> u64 {
        (size_of::<Self>() + MOST_BLOCKS * size_of::<Entry>()) as u64
    }

    /// Takes the newest block of a class.
    #[inline]
    pub(super) fn take(&mut self, class: Class, counters: &Counters) -> Option<u64> {
        if class.is_large()
            && !self.spans.is_empty()
            && let Some(address) = self.take_part(class.block_size(), counters)
        {
            return Some(address);
        }
        let address = self.remove(class, counters)?;
        Counters::add(&counters.taken, 1);
        let large_taken = counters.large_taken().wrapping_add(u32::from(class.is_large()));
        counters.large_taken.store(large_taken, Ordering::Relaxed);
        Some(address)
    }

    /// Takes the newest block of a class that is not large.
    #[inline]
    pub(super) fn take_small(&mut self, class: Class, counters: &Counters) -> Option<u64> {
        let newest = &mut self.newest[class.index()];
        let address = remove_first(&mut self.entries, newest, &mut self.unused)?;
        Counters::add(&counters.bytes, class.block_size().wrapping_neg());
        Counters::add(&counters.taken, 1);
        Some(address)
    }

    /// Takes the newest block of one of the [next larger](Class::larger) classes. When it is freed
    /// it counts as one of `class`, until it leaves the cache for the heap, which knows its size.
    pub(super) fn take_larger(&mut self, class: Class, counters: &Counters) -> Option<u64> {
        class.larger().find_map(|larger| {
            let address = self.take_small(larger, counters)?;
            let more = granules(larger.block_size() - class.block_size());
            let excess = counters.excess.load(Ordering::Relaxed).wrapping_add(more);
            counters.excess.store(excess, Ordering::Relaxed);
            Some(address)
        })
    }

    /// Counts a request that the cache could not serve.
    pub(super) fn note_miss(&mut self) {
        self.misses = self.misses.saturating_add(1);
    }

    #[inline]
    fn remove(&mut self, class: Class, counters: &Counters) -> Option<u64> {
        if class.is_large() {
            let address = self.large.take(class.block_size())?;
            Counters::add(&counters.bytes, class.block_size().wrapping_neg());
            return Some(address);
        }
        let newest = &mut self.newest[class.index()];
        let address = remove_first(&mut self.entries, newest, &mut self.unused)?;
        Counters::add(&counters.bytes, class.block_size().wrapping_neg());
        Some(address)
    }

    /// Takes a young block of a class that is not large, for the heap.
    fn remove_young(&mut self, class: Class, counters: &Counters) -> Option<u64> {
        let young = &mut self.young[class.index()];
        let address = remove_first(&mut self.entries, young, &mut self.unused)?;
        Counters::add(&counters.bytes, class.block_size().wrapping_neg());
        self.young_blocks = self.young_blocks.saturating_sub(1);
        Some(address)
    }

    /// Whether an event should be recorded for the young blocks, since one of them is wanted.
    pub(super) fn is_fence_due(&self, class: Class) -> bool {
        self.is_fenced && self.young_blocks >= FENCED_TOGETHER && self.has_young(class)
    }

    fn has_young(&self, class: Class) -> bool {
        if class.is_large() {
            return self.large.has_young(class.block_size());
        }
        self.young[class.index()] != NONE
    }

    /// Makes the young blocks available: an event was recorded on the stream after the last free.
    pub(super) fn promote(&mut self) {
        for (young, newest) in self.young.iter_mut().zip(&mut self.newest) {
            let first = std::mem::replace(young, NONE);
            let mut last = first;
            while let Some(entry) = self.entries.get_mut(usize::from(last)) {
                if entry.next == NONE {
                    entry.next = std::mem::replace(newest, first);
                    break;
                }
                last = entry.next;
            }
        }
        self.large.promote();
        self.young_blocks = 0;
    }

    /// Whether the class is in demand: a thread that keeps allocating and frees nothing will
    /// probably go on.
    pub(super) fn is_short(&self, class: Class) -> bool {
        self.misses >= MANY_MISSES && !class.is_large()
    }

    /// Caches a freed block of a class that is not large, while there are unused entries. Returns
    /// whether the block is in the cache.
    #[inline]
    pub(super) fn put_small(
        &mut self,
        class: Class,
        address: u64,
        budget: &Budget,
        counters: &Counters,
    ) -> bool {
        let after = counters.bytes() + class.block_size();
        if after > counters.grant.bytes() || after - self.large.bytes() > budget.capacity() {
            return false;
        }
        let Some(entry) = self.entries.get_mut(usize::from(self.unused)) else { return false };
        let newest = if self.is_fenced { &mut self.young } else { &mut self.newest };
        let newest = &mut newest[class.index()];
        let number = std::mem::replace(&mut self.unused, entry.next);
        *entry = Entry { address, next: std::mem::replace(newest, number) };
        self.young_blocks += u32::from(self.is_fenced);
        self.misses = 0;
        counters.bytes.store(after, Ordering::Relaxed);
        Counters::add(&counters.put, 1);
        true
    }

    /// Caches a freed block, if there is room and the cache then holds no more than it may. It is
    /// not part of a span. `evicted` receives a block that leaves for it.
    #[inline]
    pub(super) fn put(
        &mut self,
        class: Class,
        address: u64,
        budget: &Budget,
        counters: &Counters,
        evicted: &mut Option<CachedBlock>,
    ) -> Put {
        self.misses = 0;
        let put = if class.is_large() {
            self.put_large(class.block_size(), address, budget, counters, evicted)
        } else if self.is_fenced {
            self.put_young(class, address, budget, counters)
        } else {
            self.add_to::<false>(class, address, budget, counters)
        };
        if put == Put::Done {
            Counters::add(&counters.put, 1);
        }
        put
    }

    #[inline(never)]
    fn put_large(
        &mut self,
        size: u64,
        address: u64,
        budget: &Budget,
        counters: &Counters,
        evicted: &mut Option<CachedBlock>,
    ) -> Put {
        let part = if budget.follows_demand() { LARGE_PART_OF_DEMAND } else { LARGE_PART };
        if size > budget.fraction() / part || budget.is_spent() {
            return Put::Never;
        }
        let after = counters.bytes() + size - self.large.evicted_bytes();
        if after > counters.grant.bytes() && !budget.extend(&counters.grant, after) {
            return Put::Never;
        }
        Counters::add(&counters.bytes, size);
        self.young_blocks += u32::from(self.is_fenced);
        if let Some((size, address)) = self.large.put(size, address, self.is_fenced) {
            Counters::add(&counters.bytes, size.wrapping_neg());
            *evicted = Some(CachedBlock { address, size });
        }
        Put::Done
    }

    /// Caches a block from the heap that is not large. Returns whether there was room.
    #[inline]
    pub(super) fn add(
        &mut self,
        class: Class,
        address: u64,
        budget: &Budget,
        counters: &Counters,
    ) -> bool {
        self.add_to::<false>(class, address, budget, counters) == Put::Done
    }

    /// Caches a freed block that is not large, on the legacy default stream: it is young at first.
    fn put_young(
        &mut self,
        class: Class,
        address: u64,
        budget: &Budget,
        counters: &Counters,
    ) -> Put {
        let put = self.add_to::<true>(class, address, budget, counters);
        self.young_blocks += u32::from(put == Put::Done);
        put
    }

    #[inline]
    fn add_to<const YOUNG: bool>(
        &mut self,
        class: Class,
        address: u64,
        budget: &Budget,
        counters: &Counters,
    ) -> Put {
        let size = class.block_size();
        let after = counters.bytes() + size;
        if after - self.large.bytes() > budget.capacity() {
            return Put::Refused(Refused::Full);
        }
        if after > counters.grant.bytes()
            && let Some(refused) = refusal(size, after, budget, &counters.grant)
        {
            return refused;
        }
        let newest = if YOUNG { &mut self.young } else { &mut self.newest };
        let newest = &mut newest[class.index()];
        if let Some(entry) = self.entries.get_mut(usize::from(self.unused)) {
            let number = std::mem::replace(&mut self.unused, entry.next);
            *entry = Entry { address, next: std::mem::replace(newest, number) };
        } else {
            let number = self.entries.len();
            if number == MOST_BLOCKS {
                return Put::Refused(Refused::Full);
            }
            self.entries.push(Entry { address, next: *newest });
            // Below `MOST_BLOCKS`, which fits.
            *newest = u16::try_from(number).unwrap_or(NONE);
        }
        Counters::add(&counters.bytes, size);
        Put::Done
    }

    #[cfg(test)]
    /// Whether the cache has a block of the class with this address.
    pub(super) fn contains(&self, class: Class, address: u64) -> bool {
        if class.is_large() {
            return self.large.contains(address) || self.spans.contains(address);
        }
        let entry = |number: u16| self.entries.get(usize::from(number));
        let below = |number: &u16| entry(*number).map(|entry| entry.next);
        [self.newest[class.index()], self.young[class.index()]].into_iter().any(|first| {
            let mut numbers = std::iter::successors(Some(first), below);
            numbers.any(|number| entry(number).is_some_and(|entry| entry.address == address))
        })
    }

    /// Flushes blocks: those of `class`, as many as the goal allows, then large ones, oldest first,
    /// then those of `others`, until the goal is reached. If `class` is large, flushes the oldest
    /// large one only.
    #[inline]
    pub(super) fn flush(
        &mut self,
        class: Class,
        others: impl Iterator<Item = Class>,
        goal: FlushGoal,
        counters: &Counters,
        mut to: impl FnMut(CachedBlock),
    ) {
        let mut left = if class.is_large() { goal.most.min(1) } else { goal.most };
        let is_crowded = self.unused == NONE && self.entries.len() == MOST_BLOCKS;
        while left > 0
            && !class.is_large()
            && let Some(address) = self.remove_any(class, counters)
        {
            to(CachedBlock { address, size: class.block_size() });
            left -= 1;
        }
        while left > 0
            && (class.is_large() || counters.bytes() > goal.bytes)
            && let Some((size, address)) = self.large.take_oldest()
        {
            Counters::add(&counters.bytes, size.wrapping_neg());
            to(CachedBlock { address, size });
            left -= 1;
        }
        if class.is_large() {
            return;
        }
        for other in others {
            while left > 0
                && (is_crowded || self.exceeds(goal, counters))
                && let Some(address) = self.remove_any(other, counters)
            {
                to(CachedBlock { address, size: other.block_size() });
                left -= 1;
            }
            if left == 0 || counters.bytes() == 0 {
                break;
            }
        }
    }

    /// Flushes the large blocks.
    pub(super) fn flush_large(&mut self, counters: &Counters, mut to: impl FnMut(CachedBlock)) {
        while let Some((size, address)) = self.large.take_oldest() {
            Counters::add(&counters.bytes, size.wrapping_neg());
            to(CachedBlock { address, size });
        }
    }

    fn exceeds(&self, goal: FlushGoal, counters: &Counters) -> bool {
        let bytes = counters.bytes();
        bytes > goal.bytes || bytes - self.large.bytes() > goal.small_bytes
    }

    /// Takes a block of a class that is not large, for the heap, whether it is young or not.
    fn remove_any(&mut self, class: Class, counters: &Counters) -> Option<u64> {
        self.remove(class, counters).or_else(|| self.remove_young(class, counters))
    }
}

/// Grants a cache room for `after` bytes, of which `size` are new, or says why it gets none.
#[cold]
fn refusal(size: u64, after: u64, budget: &Budget, grant: &Grant) -> Option<Put> {
    if !budget.may_hold(size) {
        return Some(Put::Refused(Refused::Full));
    }
    if budget.extend(grant, after) {
        None
    } else if budget.is_short_at_miss() {
        Some(Put::Refused(Refused::Starved))
    } else if size > grant.bytes() / SCARCE_FRACTION {
        Some(Put::Never)
    } else {
        Some(Put::Refused(Refused::Full))
    }
}

/// Moves the first entry of a list to the unused ones; returns its address.
#[inline]
fn remove_first(entries: &mut [Entry], first: &mut u16, unused: &mut u16) -> Option<u64> {
    let entry = entries.get_mut(usize::from(*first))?;
    let number = std::mem::replace(first, entry.next);
    entry.next = std::mem::replace(unused, number);
    Some(entry.address)
}

/// Whether an event has to lie between a free on the stream and its next use of the block.
fn is_fenced(stream: StreamId) -> bool {
    stream == StreamRef::legacy().id()
}
