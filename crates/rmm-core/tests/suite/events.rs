//! Events: those of other libraries, flags, and handles that are given away.

use rmm_core::{CudaEvent, CudaStream, EventFlags, EventRef, StreamFlags, TimedEvent};
use rmm_sim::{Kernel, Machine, Schedule};
use rmm_sys::{CuEvent, CuResult};

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

/// An event of another library, recorded on the stream.
fn foreign_event(stream: &CudaStream) -> CuEvent {
    let event = CudaEvent::new().expect("an event");
    event.record(stream).expect("recorded");
    event.into_raw()
}

fn destroy(event: CuEvent) {
    // SAFETY: the event is of this test, which does not use it afterwards.
    drop(unsafe { CudaEvent::from_raw(event) }.expect("a driver"));
}

#[test]
fn a_stream_waits_for_an_event_of_another_library() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let (theirs, ours) = (stream(), stream());
    let handle = foreign_event(&theirs);
    // SAFETY: the event exists until the end of this test.
    let event = unsafe { EventRef::from_raw(handle) };
    event.synchronize().unwrap();
    assert!(event.is_complete().unwrap());

    machine.launch(theirs.as_raw(), Kernel::new("theirs", |_| {})).unwrap();
    let later = foreign_event(&theirs);
    // SAFETY: as above.
    let event = unsafe { EventRef::from_raw(later) };
    ours.wait(event).unwrap();
    assert!(!event.is_complete().unwrap(), "nothing has waited for it yet");
    ours.synchronize().unwrap();
    assert!(event.is_complete().unwrap(), "what waits for it comes after it");
    [handle, later].into_iter().for_each(destroy);
}

#[test]
fn streams_wait_for_events_of_each_kind() {
    let _machine = rmm_sim::enter();
    let (first, second) = (stream(), stream());
    let (plain, timed) = (CudaEvent::new().unwrap(), TimedEvent::new().unwrap());
    plain.record(&first).unwrap();
    timed.record(&first).unwrap();
    second.wait(&plain).unwrap();
    second.wait(&timed).unwrap();
    second.as_stream_ref().wait(EventRef::from(&plain)).unwrap();
}

#[test]
fn a_destroyed_event_of_another_library_is_an_error() {
    let _machine = rmm_sim::enter();
    let stream = stream();
    let handle = foreign_event(&stream);
    destroy(handle);
    // SAFETY: the software device keeps handles apart: it refuses one that is gone.
    let gone = unsafe { EventRef::from_raw(handle) };
    assert!(stream.wait(gone).unwrap_err().is_driver());
    assert!(gone.synchronize().unwrap_err().is_driver());
    assert!(gone.is_complete().unwrap_err().is_driver());
}

#[test]
fn flags_reach_the_driver() {
    let _machine = rmm_sim::enter();
    let event = CudaEvent::with_flags(EventFlags::BLOCKING_SYNC).unwrap();
    event.record(&stream()).unwrap();
    event.synchronize().unwrap();
    let refused = CudaEvent::with_flags(EventFlags::INTERPROCESS).unwrap_err();
    assert_eq!(refused.code(), Some(CuResult::NOT_SUPPORTED), "the device has no other process");
    assert!(event.export().unwrap_err().is_unsupported());
}

#[test]
fn an_event_that_is_given_away_is_not_destroyed() {
    let machine = rmm_sim::enter();
    let handle = CudaEvent::new().unwrap().into_raw();
    assert_eq!(crate::world::calls_of(&machine, "cuEventDestroy_v2"), 0);
    destroy(handle);
    assert_eq!(crate::world::calls_of(&machine, "cuEventDestroy_v2"), 1);
}
