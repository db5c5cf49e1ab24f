//! The table of caches: each stream gets its own blocks, on any thread, and a flush gets them all.

use std::thread;

use rmm_core::CudaStream;

use super::budget::{CACHE_FRACTION, CACHES_IN_ALL};
use super::slot::STEAL_AFTER_MISSES;
use super::*;

const SIZE: u64 = 4096;
/// The largest size that is not large.
const LARGEST_SMALL: u64 = 1 << 20;

fn caches() -> Caches {
    let caches = Caches::new(CachePolicy::SizeClasses, Fences::of_process());
    caches.set_capacity_from(1 << 30, 1 << 30, 0);
    caches
}

fn class() -> Class {
    Class::holding(SIZE).expect("it is small")
}

fn taken(caches: &Caches, stream: StreamId, class: Class) -> Option<u64> {
    if let Take::Done(address) = caches.take(stream, class) { Some(address) } else { None }
}

fn make(caches: &Caches, stream: StreamId) -> Vec<(StreamId, u64)> {
    let mut flushed = Vec::new();
    caches.make(stream, |owner, block| flushed.push((owner, block.address())));
    flushed
}

fn flush_all(caches: &Caches, stream: Option<StreamId>) -> Vec<(StreamId, u64)> {
    let mut flushed = Vec::new();
    caches.flush_all(stream, |owner, block| flushed.push((owner, block.address())));
    flushed
}

/// Runs on another thread, to its end.
fn on_another_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(run).join().expect("it does not panic"))
}

/// The ids of `count` streams, each in the first slot after the one before: other tests of the
/// process make streams meanwhile.
fn ids(count: usize) -> Vec<StreamId> {
    let _machine = rmm_sim::enter();
    let any = || CudaStream::new().expect("the machine makes streams").id();
    let mut ids = vec![any()];
    while ids.len() < count {
        let (id, last) = (any(), ids[ids.len() - 1]);
        if (id.get() - last.get() - 1).is_multiple_of(FIRST_SLOTS as u64) {
            ids.push(id);
        }
    }
    ids
}

#[test]
fn a_stream_gets_only_what_was_freed_on_it() {
    let (caches, ids) = (caches(), ids(2));
    assert_eq!(
        caches.put(ids[0], class(), 1, &mut None),
        Put::Refused(Refused::NotHere),
        "no thread has made a cache"
    );
    assert_eq!(make(&caches, ids[0]), []);
    assert_eq!(make(&caches, ids[1]), []);
    assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
    assert!(caches.contain(class(), 1));
    assert_eq!(taken(&caches, ids[1], class()), None);
    assert_eq!(taken(&caches, ids[0], Class::only(2 * SIZE)), None);
    assert_eq!(caches.take(ids[0], class()), Take::Done(1));
    assert_eq!(taken(&caches, ids[0], class()), None);
    assert!(!caches.contain(class(), 1));
    assert_eq!(caches.totals(), (0, CacheCounts { taken: 1, put: 1, excess: 0 }));
}

#[test]
fn caches_take_no_host_memory_before_the_first() {
    let (caches, ids) = (caches(), ids(1));
    assert_eq!(caches.take(ids[0], class()), Take::NotHere);
    assert_eq!(flush_all(&caches, None), []);
    caches.shrink();
    assert!(!caches.contain(class(), 1));
    assert_eq!(caches.bookkeeping_bytes(), 0);
    make(&caches, ids[0]);
    let with_a_cache = caches.bookkeeping_bytes();
    assert!(with_a_cache > 0);
    flush_all(&caches, None);
    caches.shrink();
    let freed = with_a_cache - caches.bookkeeping_bytes();
    assert!(freed > 32 << 10, "{freed} bytes of an unused cache are freed and not counted");
}

#[test]
fn a_thread_goes_on_with_what_an_ended_one_left() {
    let (caches, ids) = (caches(), ids(1));
    on_another_thread(|| {
        make(&caches, ids[0]);
        assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
    });
    assert_eq!(caches.take(ids[0], class()), Take::NotHere, "the cache is another thread's");
    assert_eq!(make(&caches, ids[0]), []);
    assert_eq!(caches.take(ids[0], class()), Take::Done(1));
}

#[test]
fn a_flush_finds_what_an_ended_thread_left() {
    let (caches, ids) = (caches(), ids(1));
    on_another_thread(|| {
        make(&caches, ids[0]);
        assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
    });
    assert_eq!(flush_all(&caches, None), [(ids[0], 1)]);
}

#[test]
fn threads_on_one_stream_have_separate_caches() {
    let (caches, ids) = (caches(), ids(1));
    make(&caches, ids[0]);
    assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
    let (go, going) = std::sync::mpsc::channel();
    let (done, other_is_done) = std::sync::mpsc::channel();
    let (caches, ids) = (&caches, &ids);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            assert_eq!(caches.put(ids[0], class(), 2, &mut None), Put::Refused(Refused::NotHere));
            make(caches, ids[0]);
            assert_eq!(
                caches.put(ids[0], class(), 2, &mut None),
                Put::Refused(Refused::NotHere),
                "the first may be idle"
            );
            done.send(()).expect("the test waits");
            going.recv().expect("the test goes on");
            make(caches, ids[0]);
            assert_eq!(caches.put(ids[0], class(), 2, &mut None), Put::Done);
            assert_eq!(caches.take(ids[0], class()), Take::Done(2));
            assert_eq!(caches.put(ids[0], class(), 2, &mut None), Put::Done);
        });
        other_is_done.recv().expect("the thread goes on");
        // It is not.
        assert_eq!(caches.take(ids[0], class()), Take::Done(1));
        assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
        go.send(()).expect("the thread waits");
    });
    assert_eq!(caches.take(ids[0], class()), Take::Done(1));
    assert_eq!(flush_all(caches, None), [(ids[0], 2)]);
}

#[test]
fn a_task_that_changes_threads_takes_its_cache_along() {
    let (caches, ids) = (caches(), ids(1));
    make(&caches, ids[0]);
    assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
    on_another_thread(|| {
        for _ in 0..2 {
            assert_eq!(caches.take(ids[0], class()), Take::NotHere);
            assert_eq!(make(&caches, ids[0]), []);
        }
        assert_eq!(caches.take(ids[0], class()), Take::Done(1));
        assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
    });
    // The other thread has ended.
    assert_eq!(make(&caches, ids[0]), []);
    assert_eq!(caches.take(ids[0], class()), Take::Done(1));
}

#[test]
fn a_cache_that_changes_threads_often_is_shared() {
    let (caches, ids) = (caches(), ids(1));
    let stream = ids[0];
    make(&caches, stream);
    assert_eq!(caches.put(stream, class(), 1, &mut None), Put::Done);
    let barrier = std::sync::Barrier::new(2);
    let turn = |mine: usize| {
        for round in 0..20 {
            if round % 2 == mine {
                let mut taken = caches.take(stream, class());
                for _ in 0..2 {
                    if taken == Take::NotHere {
                        make(&caches, stream);
                        taken = caches.take(stream, class());
                    }
                }
                assert_eq!(taken, Take::Done(1), "round {round}");
                assert_eq!(caches.put(stream, class(), 1, &mut None), Put::Done);
            }
            barrier.wait();
        }
    };
    // Two live threads take turns.
    std::thread::scope(|scope| {
        scope.spawn(|| turn(0));
        scope.spawn(|| turn(1));
    });
    let slot =
        |caches: &Caches| caches.table.iter().filter(|slot| slot.header().is_shared()).count();
    assert_eq!(slot(&caches), 1);
    assert!(caches.contain(class(), 1) && !caches.contain(class(), 2));
    assert_eq!(flush_all(&caches, None), [(stream, 1)]);
    assert_eq!((slot(&caches), caches.take(stream, class())), (0, Take::NotHere));
}

/// Otherwise a thread could free a block into it between an event and the promotion.
#[test]
fn the_legacy_stream_s_cache_is_never_shared() {
    let caches = caches();
    let barrier = std::sync::Barrier::new(2);
    let legacy = rmm_core::StreamRef::legacy().id();
    make(&caches, legacy);
    let turn = |mine: usize| {
        for round in 0..20 {
            if round % 2 == mine {
                while caches.take(legacy, class()) == Take::NotHere {
                    make(&caches, legacy);
                }
            }
            barrier.wait();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| turn(0));
        scope.spawn(|| turn(1));
    });
    assert!(caches.table.iter().all(|slot| !slot.header().is_shared()));
}

/// The first slot of a stream, once a revoker has put its cache under the lock.
fn shared_slot(caches: &Caches, stream: StreamId) -> &SlotHeader {
    make(caches, stream);
    let first = Caches::first_slot(stream);
    caches.table.revoker().revoke(None, NextOwner::None, [first], |header, cache| {
        header.share(cache.take());
    });
    caches.table.slots().expect("they were made")[first].header()
}

#[test]
fn threads_that_meet_in_a_shared_cache_get_their_own() {
    let (caches, ids) = (caches(), ids(1));
    let shared = shared_slot(&caches, ids[0]);
    assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
    let there = shared.look_at_shared(|cache| {
        assert!(cache.contains(class(), 1));
        on_another_thread(|| {
            let missed = caches.put(ids[0], class(), 2, &mut None);
            make(&caches, ids[0]);
            [missed, caches.put(ids[0], class(), 2, &mut None)]
        })
    });
    assert_eq!(
        there,
        Some([Put::Refused(Refused::NotHere), Put::Done]),
        "the lock is held all the time"
    );
    assert_eq!(caches.take(ids[0], class()), Take::Done(1));
    assert_eq!(flush_all(&caches, None), [(ids[0], 2)], "what the thread left is found");
}

#[test]
fn a_third_thread_on_a_stream_gets_its_own_cache() {
    let (caches, ids) = (caches(), ids(1));
    make(&caches, ids[0]);
    assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
    let put_after_a_miss = |address| {
        make(&caches, ids[0]);
        caches.put(ids[0], class(), address, &mut None)
    };
    let there = on_another_thread(|| {
        let second = put_after_a_miss(2);
        // While the second goes on.
        [second, on_another_thread(|| put_after_a_miss(3))]
    });
    assert_eq!(
        there,
        [Put::Refused(Refused::NotHere), Put::Done],
        "a task may have changed threads once"
    );
    assert_eq!(caches.take(ids[0], class()), Take::Done(1), "the first keeps its own");
}

#[test]
fn what_owners_write_is_on_another_cache_line() {
    let (caches, ids) = (caches(), ids(1));
    make(&caches, ids[0]);
    let line_of = |address: usize| address / 64;
    for slot in caches.table.iter() {
        let header = slot.header();
        let [written, read] =
            [(&raw const header.counters).addr(), (&raw const header.stream).addr()];
        assert!(line_of(written) > line_of(read) && written.is_multiple_of(64), "{written:x}");
        assert_eq!(line_of(read), line_of((&raw const *slot).addr()), "with the owner");
    }
}

#[test]
fn a_slot_that_others_miss_often_changes_owners() {
    // The third stream has the same slots as the others, which are taken.
    let (caches, ids) = (caches(), ids(2 * FIRST_SLOTS + 1));
    let [first, second, third] = [ids[0], ids[FIRST_SLOTS], ids[2 * FIRST_SLOTS]];
    for (stream, address) in [(first, 1), (second, 2)] {
        assert_eq!(make(&caches, stream), []);
        assert_eq!(caches.put(stream, class(), address, &mut None), Put::Done);
    }
    let misses = (0..STEAL_AFTER_MISSES).find(|_| make(&caches, third) == [(second, 2)]);
    assert!(misses.is_some_and(|misses| misses > STEAL_AFTER_MISSES / 2), "{misses:?}");
    assert_eq!(caches.put(third, class(), 3, &mut None), Put::Done);
    assert_eq!(caches.put(second, class(), 2, &mut None), Put::Refused(Refused::NotHere));
    assert_eq!(caches.take(first, class()), Take::Done(1), "the other keeps its own");
    assert_eq!(flush_all(&caches, Some(second)), []);
    assert_eq!(flush_all(&caches, Some(third)), [(third, 3)]);
    assert_eq!(
        caches.put(third, class(), 3, &mut None),
        Put::Refused(Refused::NotHere),
        "its slot is unused since"
    );
}

#[test]
fn a_flush_gets_all_blocks_and_keeps_the_counts() {
    let (caches, ids) = (caches(), ids(5));
    for (number, &id) in (1..).zip(&ids) {
        on_another_thread(|| make(&caches, id));
        on_another_thread(|| make(&caches, id));
        make(&caches, id);
        assert_eq!(caches.put(id, class(), number, &mut None), Put::Done, "{id}");
    }
    let mut flushed = flush_all(&caches, None);
    flushed.sort_unstable();
    let expected: Vec<_> = ids.iter().copied().zip(1..).collect();
    assert_eq!(flushed, expected);
    caches.shrink();
    assert_eq!(caches.totals(), (0, CacheCounts { taken: 0, put: 5, excess: 0 }));
}

#[test]
fn nothing_is_cached_while_a_block_is_smaller_than_its_class() {
    let (caches, ids) = (caches(), ids(1));
    make(&caches, ids[0]);
    caches.note_undersized();
    assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Refused(Refused::NotHere));
    caches.forget_undersized();
    assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
}

#[test]
fn a_cache_holds_a_fraction_of_the_pool() {
    let most_of = |reserved: u64| {
        let (caches, ids) = (caches(), ids(1));
        make(&caches, ids[0]);
        caches.set_capacity_from(reserved, reserved, 0);
        fill(&caches, ids[0], class()) * SIZE
    };
    assert_eq!(most_of(64 << 20), (64 << 20) / CACHE_FRACTION);
    assert_eq!(most_of(8 << 20), 1 << 20, "what a round of the legacy stream wants");
    assert_eq!(most_of(2 << 20), (2 << 20) / 4, "in the smallest pools a quarter");
}

#[test]
fn a_full_cache_is_flushed() {
    let (caches, ids) = (caches(), ids(1));
    make(&caches, ids[0]);
    caches.set_capacity_from(32 * SIZE, 32 * SIZE, 0);
    (1..=8)
        .for_each(|address| assert_eq!(caches.put(ids[0], class(), address, &mut None), Put::Done));
    assert_eq!(caches.put(ids[0], class(), 9, &mut None), Put::Refused(Refused::Full));
    let mut flushed = [CachedBlock::default(); 4];
    let (flushed, of_class) = caches.flush(ids[0], class(), &mut flushed);
    let addresses: Vec<u64> = flushed.iter().map(|block| block.address).collect();
    assert_eq!((addresses, of_class), (vec![8, 7, 6, 5], 4));
    assert_eq!(caches.put(ids[0], class(), 9, &mut None), Put::Done);
}

#[test]
fn a_block_above_the_fraction_is_not_cached_in_a_small_pool() {
    let (caches, ids) = (caches(), ids(1));
    make(&caches, ids[0]);
    caches.set_capacity_from(16 * SIZE, 16 * SIZE, 0); // a cache may hold four, of smaller ones
    assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Refused(Refused::Full));
}

#[test]
fn a_small_pool_that_can_be_extended_caches_blocks_of_all_classes_at_once() {
    let (caches, ids) = (by_demand(), ids(1));
    caches.set_capacity_from(2 * LARGEST_SMALL, 2 * LARGEST_SMALL, 0);
    let largest = Class::holding(LARGEST_SMALL).expect("it is cached");
    assert_eq!([largest, class()].map(|class| fill(&caches, ids[0], class)), [1, 32]);
}

#[test]
fn a_thread_that_only_allocates_is_short_of_blocks() {
    let (caches, ids) = (caches(), ids(1));
    assert_eq!(caches.take(ids[0], class()), Take::NotHere);
    make(&caches, ids[0]);
    (0..7).for_each(|_| assert_eq!(caches.take(ids[0], class()), Take::Missed));
    assert_eq!(caches.take(ids[0], class()), Take::Short);
    let large = Class::holding(64 << 20).expect("it is not too large");
    assert_eq!(caches.take(ids[0], large), Take::Missed, "large blocks go to no other thread");
    assert!(caches.add(ids[0], class(), 1));
    assert_eq!(caches.take(ids[0], class()), Take::Done(1));
    assert_eq!(
        caches.totals(),
        (0, CacheCounts { taken: 1, put: 0, excess: 0 }),
        "nothing was freed"
    );
    assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
    assert_eq!(caches.take(ids[0], class()), Take::Done(1));
    assert_eq!(caches.take(ids[0], class()), Take::Missed, "it frees, too");
}

/// Puts blocks into the stream's cache until it is refused. Returns how many were put.
fn fill(caches: &Caches, stream: StreamId, class: Class) -> u64 {
    make(caches, stream);
    (0..4096)
        .take_while(|&address| caches.put(stream, class, address, &mut None) == Put::Done)
        .count() as u64
}

#[test]
fn all_caches_together_hold_a_fraction_of_the_pool() {
    const POOL: u64 = 1 << 30;
    let (caches, ids) = (caches(), ids(64));
    caches.set_capacity_from(POOL, POOL, 0);
    let large = Class::holding(LARGEST_SMALL).expect("it is cached");
    for &id in &ids {
        fill(&caches, id, large);
        assert!(caches.totals().0 <= CACHES_IN_ALL * POOL / 32, "{} bytes", caches.totals().0);
    }
    assert!(caches.totals().0 > 5 * POOL / 32, "{} bytes", caches.totals().0);
    flush_all(&caches, None);
    assert_eq!(fill(&caches, ids[0], large), POOL / 32 / LARGEST_SMALL, "all was returned");
}

#[test]
fn a_cache_that_gets_nothing_takes_from_those_that_are_idle() {
    let (caches, ids) = (caches(), ids(9));
    let large = Class::holding(LARGEST_SMALL).expect("it is cached");
    let (&starved, idle) = ids.split_first().expect("nine");
    let full = idle.iter().filter(|&&id| fill(&caches, id, large) > 0).count();
    assert!((1..8).contains(&full), "{full}");
    make(&caches, starved);
    let mut flushed = Vec::new();
    let mut put = |address| match caches.put(starved, large, address, &mut None) {
        Put::Refused(Refused::Starved) => {
            caches.take_grant_back(|stream, address| flushed.push((stream, address)));
            caches.put(starved, large, address, &mut None) == Put::Done
        }
        put => put == Put::Done,
    };
    let done = (0..8 * 1024).filter(|&address| put(address)).count();
    assert!(done > 8, "{done}");
    assert!(!flushed.is_empty() && flushed.iter().all(|&(stream, _)| stream != starved));
}

#[test]
fn caches_of_one_size_may_hold_all_of_it() {
    const POOL: u64 = 1 << 30;
    let caches = Caches::new(CachePolicy::OneSize(LARGEST_SMALL), Fences::of_process());
    caches.set_capacity_from(POOL, POOL, 0);
    let ids = ids(32);
    let put: u64 = ids.iter().map(|&id| fill(&caches, id, Class::only(LARGEST_SMALL))).sum();
    assert!(put * LARGEST_SMALL > POOL / 4 * 3, "{put} blocks");
}

fn by_demand() -> Caches {
    Caches::new(CachePolicy::SizeClassesByDemand { most: MOST_SCALE }, Fences::of_process())
}

/// The bytes that blocks of 4 KiB take in caches for many streams, until all are full.
fn bytes_in_all(caches: &Caches, ids: &[StreamId]) -> u64 {
    let blocks: u64 = ids.iter().map(|&id| fill(caches, id, class())).sum();
    flush_all(caches, None);
    blocks * SIZE
}

#[test]
fn caches_may_hold_most_at_once_where_twice_as_much_is_reserved_as_was_used() {
    const POOL: u64 = 32 << 20;
    for (peak, least, most) in [(POOL / 2 - 1, POOL / 2, POOL), (POOL / 2, 0, 2 << 20)] {
        let (caches, ids) = (by_demand(), ids(16));
        caches.set_capacity_from(POOL, peak, 0);
        let held = bytes_in_all(&caches, &ids);
        assert!((least..=most).contains(&held), "{peak} used: {held} cached");
    }
}

#[test]
fn caches_may_hold_more_while_no_request_calls_upstream() {
    const POOL: u64 = 32 << 20;
    let (caches, ids) = (by_demand(), ids(16));
    caches.set_capacity_from(POOL, POOL, 0);
    let at_first = bytes_in_all(&caches, &ids);
    assert!(at_first <= 2 << 20, "{at_first}");
    for calm in 1..=12 {
        caches.set_capacity_from(POOL, POOL, calm * 1024);
    }
    let later = bytes_in_all(&caches, &ids);
    assert!((POOL / 2..=POOL / 4 * 3).contains(&later), "{later}");
    caches.note_shortage(13 * 1024);
    caches.set_capacity_from(POOL, POOL, 14 * 1024 - 1);
    let short = bytes_in_all(&caches, &ids);
    assert!(short <= later / 2 + later / 16, "{short} of {later}");
}

#[test]
fn threads_that_wait_for_each_other_take_blocks_of_up_to_a_quarter_more() {
    const KIB: u64 = 1 << 10;
    let (caches, ids) = (caches(), ids(1));
    make(&caches, ids[0]);
    let class = |size| Class::holding(size).expect("it is small");
    let blocks = [(81 * KIB, 1), (80 * KIB, 2), (72 * KIB, 3)];
    for (size, address) in blocks {
        assert_eq!(caches.put(ids[0], class(size), address, &mut None), Put::Done);
    }
    assert_eq!(taken(&caches, ids[0], class(64 * KIB)), None);
    caches.set_contended(true);
    assert_eq!(taken(&caches, ids[0], class(64 * KIB)), Some(3), "the smallest that is larger");
    assert_eq!(taken(&caches, ids[0], class(64 * KIB)), Some(2));
    assert_eq!(taken(&caches, ids[0], class(64 * KIB)), None, "more than a quarter larger");
    assert_eq!(caches.put(ids[0], class(64 * KIB), 2, &mut None), Put::Done);
    assert_eq!(taken(&caches, ids[0], class(64 * KIB)), Some(2), "one of that class since");
    assert_eq!(taken(&caches, ids[0], class(80 * KIB + 1)), Some(1));
    assert_eq!(taken(&caches, ids[0], Class::holding(1 << 22).expect("large")), None);
}

#[test]
fn caches_have_room_of_their_own_where_threads_wait_for_each_other() {
    const POOL: u64 = 512 << 20;
    let ids = ids(4);
    let block = Class::holding(64 << 10).expect("it is small");
    let more_when_contended = |most| {
        let caches = Caches::new(CachePolicy::SizeClassesByDemand { most }, Fences::of_process());
        caches.set_capacity_from(POOL, POOL, 0);
        let fill_all = || ids.iter().map(|&id| fill(&caches, id, block)).sum::<u64>();
        fill_all();
        caches.set_contended(true);
        caches.set_capacity_from(POOL, POOL, 0);
        let more = fill_all() * block.block_size();
        assert_eq!(caches.room() > 0, more > 0);
        more
    };
    assert!(more_when_contended(MOST_SCALE) >= 4 * (12 << 20));
    assert_eq!(more_when_contended(LEAST_SCALE), 0, "the pool returns memory by itself");
}

#[test]
fn caches_with_a_fixed_bound_do_not_follow_demand() {
    let caches = caches();
    caches.note_shortage(1);
    assert!(!caches.follows_demand());
    assert_eq!(caches.capacity(), (1 << 30) / CACHE_FRACTION);
}

#[test]
fn large_blocks_are_flushed_alone() {
    let (caches, ids) = (caches(), ids(3));
    let large = Class::holding(2 << 20).expect("it is not too large");
    shared_slot(&caches, ids[2]);
    assert_eq!(caches.put(ids[2], large, 6, &mut None), Put::Done);
    make(&caches, ids[0]);
    on_another_thread(|| {
        make(&caches, ids[1]);
        assert_eq!(caches.put(ids[1], large, 4, &mut None), Put::Done);
    });
    assert_eq!(caches.put(ids[0], class(), 1, &mut None), Put::Done);
    assert_eq!(caches.put(ids[0], large, 2, &mut None), Put::Done);
    let mut flushed = Vec::new();
    caches.flush_large(|stream, block| flushed.push((stream, block.address())));
    flushed.sort_by_key(|&(_, address)| address);
    assert_eq!(flushed, [(ids[0], 2), (ids[1], 4), (ids[2], 6)]);
    assert_eq!(caches.totals().0, SIZE);
    assert_eq!(caches.take(ids[0], class()), Take::Done(1), "the cache is its thread's as before");
}

#[test]
fn a_few_caches_are_flushed_at_a_time_and_all_of_them() {
    let (caches, ids) = (caches(), ids(9));
    let addresses = 1..=9;
    for (&id, address) in ids.iter().zip(addresses.clone()) {
        make(&caches, id);
        assert_eq!(caches.put(id, class(), address, &mut None), Put::Done);
    }
    let (mut next, mut flushed, mut turns) = (0, Vec::new(), Vec::new());
    loop {
        let before = flushed.len();
        let has_more = caches.flush_next(&mut next, 4, |_, block| flushed.push(block.address()));
        turns.push(flushed.len() - before);
        if !has_more {
            break;
        }
    }
    flushed.sort_unstable();
    assert_eq!((flushed, turns), (addresses.collect(), vec![4, 4, 1]));
    assert!(caches.are_unused());
    assert!(!caches.flush_next(&mut 0, 4, |_, _| unreachable!("all are empty")));
}
