//! Tests of counters: RMM's arithmetic of push and pop, scopes, and that no block counts twice.

use std::thread;

use rmm_adaptors::{AllocationCounters, Counter, StatisticsResourceAdaptor};
use rmm_core::{Error, SynchronousResource};

use super::scripted::{Scripted, free_sync};
use crate::support::layout;

fn counter(value: i64, peak: i64, total: i64) -> Counter {
    let mut counter = Counter::default();
    (counter.value, counter.peak, counter.total) = (value, peak, total);
    counter
}

#[test]
fn value_peak_and_total_count_requested_bytes() {
    let upstream = Scripted::default();
    let counted = StatisticsResourceAdaptor::new(upstream.clone());
    let first = counted.allocate_sync(layout(10)).unwrap();
    let second = counted.allocate_sync(layout(20)).unwrap();
    free_sync(&counted, first, layout(10));
    assert_eq!(counted.bytes_counter(), counter(20, 30, 30));
    assert_eq!(counted.allocations_counter(), counter(1, 2, 2));
    upstream.state().errors.push(Error::out_of_memory("scripted"));
    counted.allocate_sync(layout(1000)).unwrap_err();
    assert_eq!(counted.bytes_counter(), counter(20, 30, 30), "a failure counts nothing");
    free_sync(&counted, second, layout(20));
}

/// RMM's `pop_counters`: `peak = max(peak, value + child.peak)`, then `value` and `total` are
/// added.
#[test]
fn popped_counters_are_added_to_those_below() {
    let counted = StatisticsResourceAdaptor::new(Scripted::default());
    let block = counted.allocate_sync(layout(100)).unwrap();
    assert_eq!(counted.push_counters().bytes, counter(100, 100, 100));
    assert_eq!(counted.counters(), AllocationCounters::default());
    // Memory from before the push is freed after it: below zero.
    free_sync(&counted, block, layout(100));
    assert_eq!(counted.bytes_counter(), counter(-100, 0, 0));
    let other = counted.allocate_sync(layout(150)).unwrap();
    let popped = counted.pop_counters().unwrap();
    assert_eq!(popped.bytes, counter(50, 50, 150));
    assert_eq!(counted.bytes_counter(), counter(150, 150, 250));
    assert_eq!(counted.allocations_counter(), counter(1, 1, 2));
    free_sync(&counted, other, layout(150));
}

/// RMM #1588: the stack of counters was read while empty.
#[test]
fn the_last_counters_cannot_be_popped() {
    let counted = StatisticsResourceAdaptor::new(Scripted::default());
    assert!(counted.pop_counters().unwrap_err().is_out_of_range());
    counted.push_counters();
    counted.pop_counters().unwrap();
    assert!(counted.pop_counters().unwrap_err().is_out_of_range());
    let block = counted.allocate_sync(layout(7)).unwrap();
    assert_eq!(counted.bytes_counter(), counter(7, 7, 7));
    free_sync(&counted, block, layout(7));
}

#[test]
fn a_scope_counts_for_itself_and_the_scopes_around_it() {
    let counted = StatisticsResourceAdaptor::new(Scripted::default());
    let outer = counted.scope();
    let first = counted.allocate_sync(layout(10)).unwrap();
    {
        let inner = counted.scope();
        let second = counted.allocate_sync(layout(20)).unwrap();
        assert_eq!(inner.counters().bytes, counter(20, 20, 20));
        assert_eq!(outer.counters().bytes, counter(30, 30, 30));
        free_sync(&counted, second, layout(20));
    }
    assert_eq!(outer.end().bytes, counter(10, 30, 30));
    assert_eq!(counted.bytes_counter(), counter(10, 30, 30));
    free_sync(&counted, first, layout(10));
}

#[test]
fn an_outer_scope_ends_those_inside_it_and_no_other() {
    let counted = StatisticsResourceAdaptor::new(Scripted::default());
    let (outer, inner) = (counted.scope(), counted.scope());
    let block = counted.allocate_sync(layout(10)).unwrap();
    assert_eq!(outer.end().bytes, counter(10, 10, 10));
    let later = counted.scope();
    drop(inner); // is over: the later scope stays open
    free_sync(&counted, block, layout(10));
    assert_eq!(later.end().bytes, counter(-10, 0, 0));
    assert_eq!(counted.bytes_counter(), counter(0, 10, 10));
    counted.pop_counters().unwrap_err();
}

/// RMM #2304: a free was counted after upstream had reused the memory, so that the next owner
/// counted before it.
#[test]
fn a_block_reused_during_its_free_never_counts_twice() {
    let upstream = Scripted::default();
    let counted = StatisticsResourceAdaptor::new(upstream.clone());
    let block = counted.allocate_sync(layout(100)).unwrap();
    let same = counted.clone();
    upstream.reuse_in_free(move || assert_eq!(same.allocate_sync(layout(100)).unwrap(), block));
    free_sync(&counted, block, layout(100));
    assert_eq!(counted.bytes_counter(), counter(100, 100, 200));
    assert_eq!(counted.allocations_counter(), counter(1, 1, 2));
}

/// After threads have freed each other's blocks, all counters are back at their start.
#[test]
fn threads_count_together() {
    let counted = StatisticsResourceAdaptor::new(Scripted::default());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let block = counted.allocate_sync(layout(3)).unwrap();
                    free_sync(&counted, block, layout(3));
                }
            });
        }
    });
    let bytes = counted.bytes_counter();
    assert_eq!((bytes.value, bytes.total), (0, 6000));
    assert!((3..=12).contains(&bytes.peak), "{bytes:?}");
}
