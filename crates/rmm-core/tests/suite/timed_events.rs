//! Timed events.

use std::time::Duration;

use rmm_core::{CudaStream, StreamFlags, TimedEvent};
use rmm_sim::{Kernel, Machine, Schedule};
use rmm_sys::CuResult;

fn work(machine: &Machine, stream: &CudaStream) {
    machine.launch(stream.as_raw(), Kernel::new("work", |_| {})).expect("launched");
}

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

#[test]
fn time_passes_between_events_around_work() {
    let machine = rmm_sim::enter();
    let stream = stream();
    let marks = [(); 3].map(|()| TimedEvent::new().unwrap());
    for mark in &marks {
        mark.record(&stream).unwrap();
        work(&machine, &stream);
    }
    marks[2].synchronize().unwrap();
    let [first, second] = [&marks[0], &marks[1]].map(|mark| marks[2].elapsed_since(mark).unwrap());
    assert!(first >= second && second > Duration::ZERO, "{first:?} {second:?}");
    assert_eq!(marks[0].elapsed_since(&marks[0]).unwrap(), Duration::ZERO);
    assert!(marks[0].elapsed_since(&marks[2]).unwrap_err().is_invalid_argument());
}

#[test]
fn incomplete_and_unrecorded_events_have_no_time() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let stream = stream();
    let (start, end) = (TimedEvent::new().unwrap(), TimedEvent::new().unwrap());
    start.record(&stream).unwrap();
    assert!(end.elapsed_since(&start).unwrap_err().is_driver(), "never recorded");
    work(&machine, &stream);
    end.record(&stream).unwrap();
    assert_eq!(end.elapsed_since(&start).unwrap_err().code(), Some(CuResult::NOT_READY));
    end.synchronize().unwrap();
    assert!(end.elapsed_since(&start).is_ok());
}

#[test]
fn it_orders_streams_as_every_event_does() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let (first, second) = (stream(), stream());
    let mark = TimedEvent::new().unwrap();
    work(&machine, &first);
    mark.record(&first).unwrap();
    second.wait(&mark).unwrap();
    assert!(!mark.as_event().is_complete().unwrap());
    second.synchronize().unwrap();
    assert!(mark.as_event().is_complete().unwrap(), "what waits for it comes after it");
}

#[test]
fn a_driver_of_before_cuda_12_8_measures_time_too() {
    let machine = Machine::builder().driver_version(12060).schedule(Schedule::Lazy).enter();
    let stream = stream();
    let (start, end) = (TimedEvent::new().unwrap(), TimedEvent::new().unwrap());
    start.record(&stream).unwrap();
    work(&machine, &stream);
    end.record(&stream).unwrap();
    assert_eq!(end.elapsed_since(&start).unwrap_err().code(), Some(CuResult::NOT_READY));
    end.synchronize().unwrap();
    assert!(end.elapsed_since(&start).unwrap() > Duration::ZERO);
    assert!(start.elapsed_since(&end).unwrap_err().is_invalid_argument());
}
