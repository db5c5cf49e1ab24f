//! Priorities and identities of streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use rmm_core::{
    CudaStream, RetiringStream, StreamFlags, StreamId, StreamRef, StreamWatcher,
    stream_priority_range,
};
use rmm_sim::{Fault, Machine};
use rmm_sys::CuResult;

#[test]
fn priorities_outside_the_range_are_brought_into_it() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let range = stream_priority_range().unwrap();
    assert!(range.start() < range.end(), "lower numbers go first: {range:?}");
    assert_eq!(*range.end(), 0);
    for (asked, expected) in
        [(0, 0), (*range.start(), *range.start()), (i32::MIN, *range.start()), (i32::MAX, 0)]
    {
        let stream = CudaStream::with_flags(StreamFlags::empty(), asked).unwrap();
        assert_eq!(stream.as_ref().priority().unwrap(), expected, "{asked}");
    }
}

#[test]
fn that_priorities_can_not_be_told_is_an_error() {
    let machine = Machine::new();
    let _entered = machine.enter();
    machine.fail(Fault::nth("cuCtxGetStreamPriorityRange", 1, CuResult::SYSTEM_NOT_READY));
    assert!(stream_priority_range().unwrap_err().is_driver());
}

// RMM #2131: streams were no keys.
#[test]
fn a_streams_id_is_a_key() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let (first, second) = (CudaStream::new().unwrap(), CudaStream::new().unwrap());
    let mut map: HashMap<StreamId, &str> = HashMap::new();
    map.insert(first.as_ref().id(), "first");
    map.insert(second.as_ref().id(), "second");
    assert_eq!(map.insert(first.clone().as_ref().id(), "again"), Some("first"));
    assert_eq!(map.get(&StreamRef::legacy().id()), None);
    assert_eq!(map.len(), 2);
}

/// Counts what it is told, and panics then if it is to.
#[derive(Default)]
struct Told {
    times: AtomicUsize,
    panics: bool,
}

impl StreamWatcher for Told {
    fn stream_retires(&self, _stream: &RetiringStream<'_>) {
        self.times.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics, "a watcher that panics");
    }
}

#[test]
fn a_watcher_that_panics_keeps_nobody_from_being_told() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let watchers =
        [true, false, true, false].map(|panics| Arc::new(Told { panics, ..Told::default() }));
    let stream = CudaStream::new().unwrap();
    for watcher in &watchers {
        let watcher: Weak<Told> = Arc::downgrade(watcher);
        stream.watch(watcher);
    }
    drop(stream); // no panic comes out
    assert_eq!(watchers.map(|watcher| watcher.times.load(Ordering::Relaxed)), [1; 4]);
    assert!(machine.leaks().is_empty(), "the stream is destroyed: {:?}", machine.leaks());
}
