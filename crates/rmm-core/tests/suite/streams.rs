//! Priorities and identities of streams.

use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use rmm_core::{
    CudaEvent, CudaStream, Device, Error, Resource, RetiringStream, StreamFlags, StreamId,
    StreamLifetime, StreamRef, StreamWatcher, copy, stream_priority_range,
};
use rmm_resources::CudaAsyncMemoryResource;
use rmm_sim::{Fault, Machine, Schedule};
use rmm_sys::{CuResult, CuStream};

use crate::world::calls_of;

#[test]
fn priorities_outside_the_range_are_clamped() {
    let _machine = rmm_sim::enter();
    let range = stream_priority_range().unwrap();
    assert!(range.start() < range.end(), "lower numbers go first: {range:?}");
    assert_eq!(*range.end(), 0);
    for (asked, expected) in
        [(0, 0), (*range.start(), *range.start()), (i32::MIN, *range.start()), (i32::MAX, 0)]
    {
        let stream = CudaStream::with_flags(StreamFlags::empty(), asked).unwrap();
        assert_eq!(stream.priority().unwrap(), expected, "{asked}");
    }
}

#[test]
fn a_failed_query_of_priorities_is_an_error() {
    let machine = rmm_sim::enter();
    machine.fail(Fault::nth("cuCtxGetStreamPriorityRange", 1, CuResult::SYSTEM_NOT_READY));
    assert!(stream_priority_range().unwrap_err().is_driver());
}

// RMM #2131: streams could not be used as keys.
#[test]
fn a_streams_id_is_a_key() {
    let _machine = rmm_sim::enter();
    let (first, second) = (CudaStream::new().unwrap(), CudaStream::new().unwrap());
    let mut map: HashMap<StreamId, &str> = HashMap::new();
    map.insert(first.id(), "first");
    map.insert(second.id(), "second");
    assert_eq!(map.insert(first.clone().id(), "again"), Some("first"));
    assert_eq!(map.get(&StreamRef::legacy().id()), None);
    assert_eq!(map.len(), 2);
}

/// A watcher that counts its calls, and panics on request.
#[derive(Default)]
struct Told {
    times: AtomicUsize,
    panics: bool,
}

impl StreamWatcher for Told {
    fn stream_retires(&self, stream: &RetiringStream<'_>) {
        let event = CudaEvent::new().expect("the device has events");
        stream.record(&event).expect("the stream still exists");
        self.times.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics, "a watcher that panics");
    }
}

#[test]
fn a_stream_is_destroyed_once_by_its_owner() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let destroyed = || calls_of(&machine, "cuStreamDestroy_v2");
    let told = Arc::new(Told::default());
    let watch = |stream: &CudaStream| {
        let watcher: Arc<dyn StreamWatcher> = told.clone();
        stream.watch(Arc::downgrade(&watcher));
    };
    let stream = CudaStream::new()?;
    watch(&stream);
    let clone = stream.clone();
    let stream = stream.into_raw().expect_err("there is a clone");
    drop(clone);
    assert_eq!(told.times.load(Ordering::Relaxed), 0);
    let handle = stream.into_raw().expect("it is the only one");
    assert_eq!((told.times.load(Ordering::Relaxed), destroyed()), (1, 0));
    // SAFETY: the stream exists, and no other code has its handle.
    let stream = unsafe { CudaStream::from_raw(handle) }?;
    watch(&stream);
    stream.synchronize()?;
    drop(stream);
    assert_eq!((told.times.load(Ordering::Relaxed), destroyed()), (2, 1));
    for handle in [CuStream::NULL, CuStream::PER_THREAD] {
        // SAFETY: these handles are always valid, and the default streams are never destroyed.
        let stream = unsafe { CudaStream::from_raw(handle) }?;
        assert!(stream.into_raw().is_err(), "a default stream always has another clone");
    }
    assert_eq!(destroyed(), 1);
    Ok(())
}

#[test]
fn default_streams_have_their_kinds() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let told = |stream: &CudaStream| (stream.is_default(), stream.is_per_thread_default());
    for (handle, stream, meaning) in [
        (CuStream::NULL, CudaStream::legacy(), (true, false)),
        (CuStream::LEGACY, CudaStream::legacy(), (true, false)),
        (CuStream::PER_THREAD, CudaStream::per_thread(), (false, true)),
    ] {
        // SAFETY: these handles are valid everywhere.
        let adopted = unsafe { CudaStream::adopt(handle, StreamLifetime::Unknown) }?;
        assert_eq!(told(&adopted), meaning, "{handle:?}");
        assert_eq!(adopted, stream, "{handle:?}");
    }
    let own = CudaStream::new()?;
    assert_eq!(told(&own), (false, false));
    let others = [CudaStream::legacy(), CudaStream::per_thread()];
    assert!(others[0] != others[1] && !others.contains(&own));
    Ok(())
}

#[test]
fn a_stream_knows_its_device_whichever_is_current() -> Result<(), Error> {
    let _machine = Machine::builder().devices(2).enter();
    let (first, second) = (Device::new(0)?, Device::new(1)?);
    let stream = CudaStream::new()?;
    let _current = second.make_current()?;
    assert_eq!(stream.device()?, first);
    assert_eq!(CudaStream::new()?.device()?, second);
    assert_eq!(StreamRef::legacy().device()?, second);
    assert_eq!(Device::current()?, second, "asking changed the current device");
    Ok(())
}

#[test]
fn waiting_for_a_stream_puts_later_work_after_its() -> Result<(), Error> {
    let _machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let (earlier, later) = (CudaStream::new()?, CudaStream::new()?);
    let (pool, layout) = (CudaAsyncMemoryResource::new()?, Layout::new::<[u64; 8]>());
    let (first, second) = (pool.allocate(&earlier, layout)?, pool.allocate(&later, layout)?);
    for waits in [false, true] {
        for _ in 0..8 {
            // SAFETY: the memory is the stream's and has 64 bytes.
            unsafe { copy::fill(first, 1, 64, &earlier) }?;
        }
        if waits {
            later.wait_for(&earlier)?;
        }
        // SAFETY: as above.
        unsafe { copy::fill(second, 2, 64, &later) }?;
        later.synchronize()?;
        assert_eq!(earlier.is_idle()?, waits);
    }
    // SAFETY: allocated above with this layout on this stream.
    unsafe { pool.deallocate(&earlier, first, layout) };
    // SAFETY: as above.
    unsafe { pool.deallocate(&later, second, layout) };
    Ok(())
}

#[test]
fn a_wait_for_the_same_stream_costs_no_event() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let stream = CudaStream::new()?;
    stream.wait_for(&stream.clone())?;
    assert_eq!(calls_of(&machine, "cuEventCreate"), 0);
    Ok(())
}

#[test]
fn streams_of_two_devices_wait_for_each_other() -> Result<(), Error> {
    let _machine = Machine::builder().devices(2).enter();
    let first = CudaStream::new()?;
    let _current = Device::new(1)?.make_current()?;
    let second = CudaStream::new()?;
    second.wait_for(&first)?;
    first.wait_for(&second)?;
    let (start, end) = (first.record_timed_event()?, first.record_timed_event()?);
    end.synchronize()?;
    assert!(end.elapsed_since(&start).is_ok());
    Ok(())
}

#[test]
fn the_other_watchers_are_called_after_one_panics() {
    let machine = rmm_sim::enter();
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

#[test]
fn a_stream_shows_its_handle() {
    let _machine = rmm_sim::enter();
    let stream = CudaStream::new().expect("a stream");
    let shown = format!("{:?}", stream.as_stream_ref());
    assert!(shown.contains(&format!("{:?}", stream.as_raw())), "{shown}");
}
