//! Tests of the tracker: live blocks, findings, and that it leaks nothing.

use std::alloc::Layout;
use std::sync::{Arc, Mutex};

use rmm_adaptors::{TrackingFinding, TrackingResourceAdaptor};
use rmm_core::{DevicePtr, SynchronousResource};

use super::scripted::{FIRST, Scripted, free_sync};
use crate::support::layout;

type Found = Arc<Mutex<Vec<String>>>;

/// A tracker, its upstream, and its findings.
fn tracked() -> (TrackingResourceAdaptor<Scripted>, Scripted, Found) {
    let (upstream, found) = (Scripted::default(), Found::default());
    let sink = Arc::clone(&found);
    let tracked = TrackingResourceAdaptor::builder(upstream.clone())
        .on_finding(move |finding| sink.lock().expect("no panic").push(finding.to_string()));
    (tracked, upstream, found)
}

fn findings(found: &Found) -> Vec<String> {
    found.lock().expect("no panic").clone()
}

/// RMM #2404: a free of an unknown address decremented the counter.
#[test]
fn an_unknown_free_is_reported_and_passed_on() {
    let (tracked, upstream, found) = tracked();
    let block = tracked.allocate_sync(layout(1000)).unwrap();
    free_sync(&tracked, DevicePtr(0xbad00), layout(64));
    assert_eq!(tracked.allocated_bytes(), 1000);
    assert_eq!(tracked.unknown_frees(), 1);
    assert_eq!(
        findings(&found),
        ["Deallocating a pointer that was not tracked. Ptr: 0xbad00 [64B]"]
    );
    assert_eq!(upstream.state().freed, [(DevicePtr(0xbad00), layout(64))]);
    free_sync(&tracked, block, layout(1000));
    drop(tracked);
    assert_eq!(findings(&found).len(), 1, "nothing leaked");
}

/// RMM #1966: the entry was read after it had been removed.
#[test]
fn a_wrong_free_is_reported_and_corrected() {
    let (tracked, upstream, found) = tracked();
    let block = tracked.allocate_sync(layout(1000)).unwrap();
    free_sync(&tracked, block, layout(64));
    assert_eq!((tracked.allocated_bytes(), tracked.wrong_frees()), (0, 1));
    let expected =
        format!("Alloc bytes (1000) and Dealloc bytes (64) do not match. Ptr: {FIRST:#x}");
    assert_eq!(findings(&found), [expected]);
    assert_eq!(upstream.state().freed, [(block, layout(1000))]);
    let block = tracked.allocate_sync(layout(1000)).unwrap();
    free_sync(&tracked, block, Layout::from_size_align(1000, 64).unwrap());
    assert!(findings(&found)[1].starts_with("Alloc alignment (256) and Dealloc alignment (64)"));
}

/// RMM #2304: the entry was removed after another thread could already have the address.
#[test]
fn an_address_reused_during_its_free_is_tracked() {
    let (tracked, upstream, found) = tracked();
    let block = tracked.allocate_sync(layout(100)).unwrap();
    let same = tracked.clone();
    upstream.reuse_in_free(move || assert_eq!(same.allocate_sync(layout(200)).unwrap(), block));
    free_sync(&tracked, block, layout(100));
    assert_eq!(tracked.allocated_bytes(), 200);
    free_sync(&tracked, block, layout(200));
    assert!(findings(&found).is_empty(), "{:?}", findings(&found));
}

/// In RMM, the error "pointer is already tracked" leaked the block.
#[test]
fn a_block_at_a_tracked_address_is_freed() {
    let (tracked, upstream, _told) = tracked();
    let block = tracked.allocate_sync(layout(100)).unwrap();
    upstream.state().next = 0;
    let error = tracked.allocate_sync(layout(300)).unwrap_err();
    assert!(error.is_invalid_argument() && error.to_string().contains("tracker"), "{error}");
    assert_eq!(upstream.state().freed, [(block, layout(300))]);
    assert_eq!(tracked.allocated_bytes(), 100, "the first is tracked as it was");
    free_sync(&tracked, block, layout(100));
}

#[test]
fn leaks_are_reported_at_drop_the_largest_first() {
    let (tracked, upstream, found) = tracked();
    for bytes in [10, 3000, 200] {
        tracked.allocate_sync(layout(bytes)).unwrap();
    }
    let clone = tracked.clone();
    drop(tracked);
    assert!(findings(&found).is_empty(), "a handle is left");
    drop(clone);
    let [leak] = &findings(&found)[..] else { panic!("{:?}", findings(&found)) };
    let sizes: Vec<&str> =
        leak.lines().skip(1).filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(sizes, ["3000 B", "200 B", "10 B"], "{leak}");
    assert!(leak.starts_with("Leaked: 3.1 KiB in 3 blocks"), "{leak}");
    assert_eq!(upstream.live(), 3);
}

#[inline(never)]
fn the_place_that_leaks(resource: &impl SynchronousResource, blocks: usize) -> Vec<DevicePtr> {
    // Not in a closure: with line tables only, its name says nothing.
    let mut left = Vec::new();
    for _ in 0..blocks {
        left.push(resource.allocate_sync(layout(64)).expect("memory"));
    }
    left
}

#[test]
fn backtraces_lead_to_the_call_site() {
    let tracked = TrackingResourceAdaptor::builder(Scripted::default())
        .capture_stacks(true)
        .on_finding(|finding| assert!(matches!(finding, TrackingFinding::Leak(_))));
    let blocks = the_place_that_leaks(&tracked, 5);
    let other = tracked.allocate_sync(layout(10)).unwrap();
    let sites = tracked.report().call_sites();
    assert!(sites[0].place.contains("the_place_that_leaks"), "{sites:?}");
    assert_eq!((sites[0].blocks, sites[0].bytes), (5, 320));
    assert!(sites[1].place.contains("backtraces_lead_to"), "{sites:?}");
    assert!(tracked.outstanding()[0].to_string().contains("callstack"));
    for block in blocks {
        free_sync(&tracked, block, layout(64));
    }
    free_sync(&tracked, other, layout(10));
}

#[test]
fn a_panicking_function_leaks_no_memory() {
    let upstream = Scripted::default();
    let tracked = TrackingResourceAdaptor::builder(upstream.clone())
        .on_finding(|_| panic!("a function that panics"));
    let block = tracked.allocate_sync(layout(64)).unwrap();
    free_sync(&tracked, block, layout(65));
    assert_eq!(upstream.live(), 0);
    tracked.allocate_sync(layout(64)).unwrap();
    drop(tracked); // reports the leak, and catches the panic
}
