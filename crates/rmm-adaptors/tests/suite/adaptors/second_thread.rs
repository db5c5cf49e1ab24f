//! Tests of adaptors that one thread has used alone before other threads do: no state is lost at
//! the transition.

use std::thread;

use rmm_adaptors::{
    AlignedResourceAdaptor, LimitingResourceAdaptor, StatisticsResourceAdaptor, TrackingFinding,
    TrackingResourceAdaptor,
};
use rmm_core::{DevicePtr, SynchronousResource};

use super::scripted::{FIRST, Scripted, free_sync};
use crate::support::layout;

/// This thread allocates ten blocks of 1000 bytes; another frees four of them and allocates one of
/// 5000; this thread allocates one more.
fn two_threads(resource: &impl SynchronousResource) -> Vec<DevicePtr> {
    let allocate = |bytes| resource.allocate_sync(layout(bytes)).expect("addresses are many");
    let mut blocks: Vec<_> = (0..10).map(|_| allocate(1000)).collect();
    let freed = blocks.split_off(6);
    thread::scope(|scope| {
        scope.spawn(|| {
            for block in freed {
                free_sync(resource, block, layout(1000));
            }
            free_sync(resource, allocate(5000), layout(5000));
        });
    });
    blocks.push(allocate(1000));
    blocks
}

#[test]
fn counters_continue() {
    let counted = StatisticsResourceAdaptor::new(Scripted::default());
    let scope = counted.scope();
    assert_eq!(two_threads(&counted).len(), 7);
    let all = scope.counters();
    assert_eq!((all.bytes.value, all.bytes.peak, all.bytes.total), (7000, 11_000, 16_000));
    assert_eq!((all.allocations.value, all.allocations.peak), (7, 10));
    assert_eq!(scope.end(), counted.counters());
}

#[test]
fn a_limit_holds_for_all_threads_together() {
    let limited = LimitingResourceAdaptor::new(Scripted::default(), 11 * 1024 + 256);
    assert_eq!(two_threads(&limited).len(), 7);
    assert_eq!(limited.allocated_bytes(), 7 * 1024);
    let too_much = layout(4 * 1024 + 257);
    limited.allocate_sync(too_much).expect_err("here");
    let other = thread::scope(|scope| scope.spawn(|| limited.allocate_sync(too_much)).join());
    other.expect("it does not panic").expect_err("there");
    assert_eq!(limited.allocated_bytes(), 7 * 1024, "the failed request does not count");
}

#[test]
fn every_thread_finds_the_blocks_of_the_first() {
    let found = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let findings = std::sync::Arc::clone(&found);
    let tracked = TrackingResourceAdaptor::builder(Scripted::default()).on_finding(
        move |finding: &TrackingFinding<'_>| {
            findings.lock().expect("no test panics").push(finding.to_string());
        },
    );

    let blocks = two_threads(&tracked);
    assert_eq!(tracked.allocated_bytes(), 7000);
    let listed = thread::scope(|scope| scope.spawn(|| tracked.outstanding()).join());
    let listed: Vec<_> =
        listed.expect("it does not panic").iter().map(|block| block.pointer).collect();
    assert_eq!(listed, blocks);
    for &block in &blocks[1..] {
        free_sync(&tracked, block, layout(1000));
    }
    assert_eq!((tracked.unknown_frees(), tracked.wrong_frees()), (0, 0));
    drop(tracked);
    let found = found.lock().expect("no test panics");
    assert!(matches!(&found[..], [leak] if leak.starts_with("Leaked: ")), "{found:?}");
}

#[test]
fn a_wrong_free_of_another_thread_is_corrected() {
    let tracked = TrackingResourceAdaptor::new(Scripted::default());
    let blocks = two_threads(&tracked);
    free_sync(&tracked, blocks[0], layout(10));
    assert_eq!((tracked.allocated_bytes(), tracked.wrong_frees()), (6000, 1));
    for &block in &blocks[1..] {
        free_sync(&tracked, block, layout(1000));
    }
    assert_eq!(tracked.allocated_bytes(), 0);
}

#[test]
fn every_thread_frees_the_upstream_block_of_its_block() {
    let upstream = Scripted::default();
    let aligned = AlignedResourceAdaptor::new(upstream.clone(), 4096).expect("a power of two");
    let blocks = two_threads(&aligned);
    thread::scope(|scope| {
        scope.spawn(|| blocks.iter().for_each(|&block| free_sync(&aligned, block, layout(1000))));
    });

    let state = upstream.state();
    let mut next = FIRST;
    let handed_out = state.asked.iter().map(|&asked| {
        let pointer = DevicePtr(next);
        next += asked.size() as u64;
        (pointer, asked)
    });
    let mut freed = state.freed.clone();
    freed.sort_by_key(|(pointer, _)| *pointer);
    assert_eq!(freed, handed_out.collect::<Vec<_>>());
}
