//! Tests of one cache.

use super::super::budget::CACHE_FRACTION;
use super::*;

const CAPACITY: u64 = 64 << 20;
const SMALL: u64 = 256;
const LARGE: u64 = 1 << 20;

fn cache() -> (Cache, Counters) {
    (Cache::new(StreamRef::per_thread().id()), Counters::default())
}

/// The budget of a pool whose caches hold `capacity` bytes each.
fn budget(capacity: u64) -> Budget {
    let budget = Budget::default();
    budget.set_from(capacity * CACHE_FRACTION);
    budget
}

fn flush(cache: &mut Cache, counters: &Counters, class: Class, most: usize) -> Vec<u64> {
    let mut flushed = Vec::new();
    let goal = FlushGoal { most, ..FlushGoal::ALL };
    cache.flush(class, Class::all(), goal, counters, |block| flushed.push(block.address));
    flushed
}

fn classes() -> [Class; 2] {
    [SMALL, LARGE].map(|size| Class::holding(size).expect("both are cached"))
}

#[test]
fn the_newest_block_of_a_class_comes_first() {
    let ([small, large], (mut cache, counters)) = (classes(), cache());
    for address in [1, 2, 3] {
        assert_eq!(cache.put(small, address, &budget(CAPACITY), &counters, &mut None), Put::Done);
    }
    assert_eq!(cache.put(large, 4, &budget(CAPACITY), &counters, &mut None), Put::Done);
    assert_eq!(counters.bytes(), 3 * SMALL + LARGE);
    assert!(cache.contains(small, 1) && cache.contains(large, 4));
    assert!(!cache.contains(small, 4) && !cache.contains(large, 1));
    assert_eq!(cache.take(small, &counters), Some(3));
    let put = cache.put(large, 5, &budget(CAPACITY), &counters, &mut None);
    assert_eq!(put, Put::Done, "the entry of the one that left is reused");
    let taken = [large, large, large].map(|class| cache.take(class, &counters));
    assert_eq!(taken, [Some(5), Some(4), None]);
    let taken = [small, small, small].map(|class| cache.take(class, &counters));
    assert_eq!(taken, [Some(2), Some(1), None]);
    assert_eq!(
        (counters.bytes(), counters.counts()),
        (0, CacheCounts { taken: 5, put: 5, excess: 0 })
    );
}

#[test]
fn a_cache_holds_no_more_than_its_capacity() {
    let ([small, large], (mut cache, counters)) = (classes(), cache());
    let mut put = |class, address| {
        cache.put(class, address, &budget(CAPACITY), &counters, &mut None) == Put::Done
    };
    assert_eq!((0..4000).filter(|&address| put(small, address)).count(), MOST_BLOCKS);
    assert_eq!(flush(&mut cache, &counters, small, usize::MAX).len(), MOST_BLOCKS);
    let mut put = |class, address| {
        cache.put(class, address, &budget(CAPACITY), &counters, &mut None) == Put::Done
    };
    let count = (0..1000).filter(|&address| put(large, address)).count() as u64;
    assert_eq!(count * LARGE, CAPACITY);
    assert!(!put(small, 0), "that would be too many bytes");
}

#[test]
fn large_blocks_are_bounded_apart_from_the_others() {
    let ([small, large], (mut cache, counters)) = (classes(), cache());
    let budget = budget(4 * LARGE);
    let [exact, too_large] =
        [2 * LARGE, 2 * LARGE + 256].map(|size| Class::holding(size).expect("it is not too large"));
    let mut evicted = None;
    let mut put = |class, address| cache.put(class, address, &budget, &counters, &mut evicted);
    assert_eq!(put(too_large, 1), Put::Never);
    (1..=4).for_each(|address| assert_eq!(put(exact, address), Put::Done));
    assert_eq!(put(exact, 5), Put::Done);
    (6..=9).for_each(|address| assert_eq!(put(large, address), Put::Done));
    assert_eq!(put(small, 10), Put::Refused(Refused::Full));
    let oldest = CachedBlock { address: 1, size: exact.block_size() };
    assert_eq!((evicted, counters.counts().put), (Some(oldest), 9));
    assert_eq!(counters.bytes(), 12 * LARGE);
    assert_eq!(cache.take(exact, &counters), Some(5));
    assert_eq!(flush(&mut cache, &counters, exact, 2), [2], "one is enough");
    assert_eq!(flush(&mut cache, &counters, small, usize::MAX), [3, 4, 9, 8, 7, 6]);
    assert_eq!(counters.bytes(), 0);
}

#[test]
fn a_flush_begins_with_the_class_that_is_full() {
    let ([small, large], (mut cache, counters)) = (classes(), cache());
    for address in 0..4 {
        assert_eq!(cache.put(small, address, &budget(CAPACITY), &counters, &mut None), Put::Done);
        assert_eq!(
            cache.put(large, 10 + address, &budget(CAPACITY), &counters, &mut None),
            Put::Done
        );
    }
    assert_eq!(flush(&mut cache, &counters, large, 5), [13, 12, 11, 10, 3]);
    assert_eq!(counters.bytes(), 3 * SMALL);
    assert_eq!(cache.take(small, &counters), Some(2));
}

fn legacy_cache_with_young(addresses: &[u64]) -> (Cache, Counters) {
    let (mut cache, counters) = (Cache::new(StreamRef::legacy().id()), Counters::default());
    for &address in addresses {
        assert_eq!(
            cache.put(classes()[0], address, &budget(CAPACITY), &counters, &mut None),
            Put::Done
        );
    }
    (cache, counters)
}

#[test]
fn a_block_freed_on_the_legacy_stream_waits_for_an_event() {
    let (small, (mut cache, counters)) = (classes()[0], legacy_cache_with_young(&[1, 2]));
    assert_eq!(cache.take(small, &counters), None);
    assert!(!cache.is_fence_due(small), "two are too few");
    cache.promote();
    assert_eq!(cache.put(small, 3, &budget(CAPACITY), &counters, &mut None), Put::Done);
    let taken = [small, small, small].map(|class| cache.take(class, &counters));
    assert_eq!(taken, [Some(2), Some(1), None]);
    assert!(cache.contains(small, 3));
}

#[test]
fn one_event_serves_many_young_blocks() {
    let small = classes()[0];
    let (cache, _) = legacy_cache_with_young(&[1; FENCED_TOGETHER as usize - 1]);
    assert!(!cache.is_fence_due(small));
    let (mut cache, counters) = legacy_cache_with_young(&[1; FENCED_TOGETHER as usize]);
    assert!(cache.is_fence_due(small));
    assert!(!cache.is_fence_due(classes()[1]), "none of these waits");
    cache.promote();
    assert!(!cache.is_fence_due(small));
    assert!(cache.take(small, &counters).is_some());
}

#[test]
fn what_a_flush_leaves_is_as_young_as_before() {
    let small = classes()[0];
    let (mut cache, counters) = legacy_cache_with_young(&[1, 2, 3]);
    assert_eq!(flush(&mut cache, &counters, small, 2), [3, 2]);
    assert_eq!(cache.take(small, &counters), None);
    assert_eq!((counters.bytes(), cache.young_blocks), (SMALL, 1));
}
