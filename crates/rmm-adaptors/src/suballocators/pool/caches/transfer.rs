//! Transfer cache: free blocks that move between thread caches in batches.
//!
//! When one thread allocates and another frees, every block would otherwise go through the heap: a
//! lookup, a merge, a search, and the pool's lock twice. Instead, a thread cache that overflows
//! hands a batch of 64 blocks of one size class to this cache, and a thread cache that misses takes
//! a whole batch. tcmalloc's transfer cache works the same way.
//!
//! Blocks in here cannot coalesce. So a batch is accepted only for size classes with recent misses
//! (`demand`), and the whole cache is flushed to the heap before the pool polls, grows or waits.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::{CLASSES, Class};
use crate::suballocators::pool::values::units::{ListId, Point};

/// Blocks in a batch.
pub(crate) const BATCH_LEN: usize = 64;
/// Upper bound on batches in the cache; each takes half a kilobyte of host memory.
const MAX_BATCHES: usize = 512;
/// Upper bound on the demand counter of a size class.
const MAX_DEMAND: u32 = 32;
/// How many batches of a size class [`TransferCache::take`] examines.
const SEARCH_LIMIT: usize = 8;

/// Free blocks of one size class that were freed on one stream. The heap counts them as allocated.
#[derive(Debug)]
pub(crate) struct Batch {
    class: Class,
    /// The free list (stream) that they belong to, and a release point not before that of any
    /// block.
    pub(crate) list: ListId,
    pub(crate) point: Point,
    pub(crate) addresses: Vec<u64>,
}

/// The batches of one size class.
#[derive(Debug, Default)]
struct ClassQueue {
    /// Oldest first.
    batches: VecDeque<Batch>,
    /// Misses not yet served: how many more batches are worth keeping.
    demand: u32,
}

/// The transfer cache of a pool. Protected by the pool's lock.
#[derive(Debug, Default)]
pub(crate) struct TransferCache {
    /// Index: a size class's number. Empty until the first miss.
    queues: Vec<ClassQueue>,
    /// Batches in all queues.
    len: usize,
    /// Emptied address vectors, reused so that a steady state makes no host allocation.
    spare: Vec<Vec<u64>>,
    /// Bytes of all blocks in the cache.
    bytes: u64,
}

impl Batch {
    /// Bytes that each block counts as.
    pub(crate) fn block_size(&self) -> u64 {
        self.class.block_size()
    }

    fn bytes(&self) -> u64 {
        self.block_size() * self.addresses.len() as u64
    }
}

impl TransferCache {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all blocks in the cache.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that a thread cache missed in this size class.
    pub(crate) fn record_demand(&mut self, class: Class) {
        self.queues.resize_with(CLASSES, ClassQueue::default);
        if let Some(queue) = self.queues.get_mut(class.index()) {
            queue.demand = MAX_DEMAND.min(queue.demand + 1);
        }
    }

    /// Offers a batch that was freed on the stream of `list`, up to `point`. Returns whether it was
    /// kept: there must be demand for the class, room for a batch, and at most `capacity` bytes in
    /// the cache afterwards. A rejected batch belongs to the heap.
    pub(crate) fn offer(
        &mut self,
        class: Class,
        (list, point): (ListId, Point),
        addresses: impl ExactSizeIterator<Item = u64>,
        capacity: u64,
    ) -> bool {
        let bytes = class.block_size() * addresses.len() as u64;
        let Some(queue) = self.queues.get_mut(class.index()) else { return false };
        if queue.demand == 0 || self.len == MAX_BATCHES || self.bytes + bytes > capacity {
            return false;
        }
        queue.demand -= 1;
        let mut kept = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BATCH_LEN));
        kept.extend(addresses);
        self.bytes += bytes;
        self.len += 1;
        queue.batches.push_back(Batch { class, list, point, addresses: kept });
        true
    }

    /// Takes the oldest batch of the class that `usable` accepts, of the first few.
    pub(crate) fn take(
        &mut self,
        class: Class,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<Batch> {
        let queue = self.queues.get_mut(class.index())?;
        let mut examined = queue.batches.iter().take(SEARCH_LIMIT);
        let index = examined.position(|batch| usable(batch.list, batch.point))?;
        let batch = queue.batches.remove(index)?;
        queue.demand = MAX_DEMAND.min(queue.demand + 1);
        self.len -= 1;
        self.bytes -= batch.bytes();
        Some(batch)
    }

    /// Keeps the address vector of a batch whose blocks have gone, for the next batch.
    pub(crate) fn recycle(&mut self, mut batch: Batch) {
        batch.addresses.clear();
        self.spare.push(batch.addresses);
    }

    /// Removes all batches, or those of one free list, for the heap.
    pub(crate) fn flush(&mut self, list: Option<ListId>) -> Vec<Batch> {
        let mut flushed = Vec::new();
        for queue in self.queues.iter_mut().filter(|queue| !queue.batches.is_empty()) {
            let is_flushed = |batch: &Batch| list.is_none_or(|list| batch.list == list);
            let (mine, others) = queue.batches.drain(..).partition::<VecDeque<_>, _>(is_flushed);
            queue.batches = others;
            flushed.extend(mine);
        }
        self.len -= flushed.len();
        self.bytes -= flushed.iter().map(Batch::bytes).sum::<u64>();
        flushed
    }

    /// Frees host memory that the cache does not need now.
    pub(crate) fn shrink(&mut self) {
        self.spare = Vec::new();
        if self.len == 0 {
            self.queues = Vec::new();
        }
    }

    /// Host bytes of the cache's tables.
    pub(crate) fn bookkeeping_bytes(&self) -> u64 {
        let of_queue = |queue: &ClassQueue| queue.batches.capacity() * size_of::<Batch>();
        let queues = self.queues.capacity() * size_of::<ClassQueue>();
        let batches = self.queues.iter().map(of_queue).sum::<usize>();
        let addresses = (self.len + self.spare.len()) * BATCH_LEN * size_of::<u64>();
        (queues + batches + addresses + self.spare.capacity() * size_of::<Vec<u64>>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(cache: &TransferCache, address: u64) -> bool {
        let mut batches = cache.queues.iter().flat_map(|queue| &queue.batches);
        batches.any(|batch| batch.addresses.contains(&address))
    }

    const CAPACITY: u64 = 1 << 20;
    const ONE: ListId = ListId(1);
    const OTHER: ListId = ListId(2);

    fn class() -> Class {
        Class::holding(4096).expect("it is small")
    }

    fn offer(cache: &mut TransferCache, list: ListId, point: Point, addresses: &[u64]) -> bool {
        cache.offer(class(), (list, point), addresses.iter().copied(), CAPACITY)
    }

    #[test]
    fn only_classes_in_demand_are_kept() {
        let mut cache = TransferCache::default();
        assert!(!offer(&mut cache, ONE, 1, &[1, 2]));
        cache.record_demand(Class::holding(256).expect("it is small"));
        assert!(!offer(&mut cache, ONE, 1, &[1, 2]), "another class");
        cache.record_demand(class());
        assert!(offer(&mut cache, ONE, 1, &[1, 2]));
        assert_eq!(cache.bytes(), 2 * 4096);
        assert!(!offer(&mut cache, ONE, 2, &[3]), "that was one");
        let batch = cache.take(class(), |_, _| true).expect("there is one");
        assert_eq!((batch.list, batch.point, &batch.addresses[..]), (ONE, 1, &[1, 2][..]));
        assert_eq!(cache.bytes(), 0);
        cache.recycle(batch);
        assert!(offer(&mut cache, ONE, 2, &[3]), "who takes one wants another");
        assert!(contains(&cache, 3) && !contains(&cache, 1));
    }

    #[test]
    fn the_cache_stays_within_its_capacity() {
        let mut cache = TransferCache::default();
        cache.record_demand(class());
        assert!(!cache.offer(class(), (ONE, 1), [1, 2].into_iter(), 4096));
        assert!(cache.offer(class(), (ONE, 1), std::iter::once(1), 4096));
    }

    #[test]
    fn a_batch_that_was_taken_makes_room_for_another() {
        let mut cache = TransferCache::default();
        cache.record_demand(class());
        for point in 0..=MAX_BATCHES as Point {
            assert!(offer(&mut cache, ONE, point, &[1]));
            assert!(cache.take(class(), |_, _| true).is_some());
            assert!(cache.is_empty());
        }
    }

    #[test]
    fn the_number_of_batches_is_bounded() {
        let mut cache = TransferCache::default();
        let kept = (0..2 * MAX_BATCHES).filter(|_| {
            cache.record_demand(class());
            cache.offer(class(), (ONE, 1), std::iter::once(1), u64::MAX)
        });
        assert_eq!(kept.count(), MAX_BATCHES);
    }

    #[test]
    fn take_returns_the_oldest_batch_that_is_usable() {
        let mut cache = TransferCache::default();
        (0..3).for_each(|_| cache.record_demand(class()));
        for (list, point) in [(ONE, 5), (OTHER, 1), (ONE, 3)] {
            assert!(offer(&mut cache, list, point, &[point]));
        }
        let mut take = |usable: fn(ListId, Point) -> bool| {
            cache.take(class(), usable).map(|batch| (batch.list, batch.point))
        };
        assert_eq!(take(|list, point| list == ONE && point < 5), Some((ONE, 3)));
        assert_eq!(take(|_, _| false), None);
        assert_eq!(take(|_, _| true), Some((ONE, 5)));
        assert_eq!(take(|_, _| true), Some((OTHER, 1)));
    }

    #[test]
    fn one_list_can_be_flushed_alone() {
        let mut cache = TransferCache::default();
        (0..3).for_each(|_| cache.record_demand(class()));
        for (list, point) in [(ONE, 1), (OTHER, 2), (ONE, 3)] {
            assert!(offer(&mut cache, list, point, &[point]));
        }
        let mut points = |list| cache.flush(list).iter().map(|batch| batch.point).collect();
        let of_one: Vec<Point> = points(Some(ONE));
        let others: Vec<Point> = points(None);
        assert_eq!((of_one, others, cache.bytes()), (vec![1, 3], vec![2], 0));
    }
}
