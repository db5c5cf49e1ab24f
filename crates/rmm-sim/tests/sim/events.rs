//! Events: what they record, and when they are complete.

use rmm_sim::{Machine, Schedule};
use rmm_sys::{CuContext, CuEvent, CuResult, EVENT_DISABLE_TIMING};

use crate::common::{Log, alloc, event, start, stream};

#[test]
fn an_event_that_was_never_recorded_is_complete() {
    let (machine, _here) = start(Schedule::Lazy);
    let (event, stream, log) = (event(), stream(), Log::default());
    ok!(cuEventQuery(event));
    ok!(cuEventSynchronize(event));
    ok!(cuStreamWaitEvent(stream, event, 0));
    log.enqueue(&machine, stream, 1);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(log.seen(), [1]);
}

#[test]
fn an_event_completes_with_the_work_before_it() {
    let (machine, _here) = start(Schedule::Lazy);
    let (event, stream, log) = (event(), stream(), Log::default());
    log.enqueue(&machine, stream, 1);
    ok!(cuEventRecord(event, stream));
    log.enqueue(&machine, stream, 2);
    assert_eq!(cu!(cuEventQuery(event)), CuResult::NOT_READY);
    ok!(cuEventSynchronize(event));
    ok!(cuEventQuery(event));
    assert_eq!(log.seen(), [1], "what comes after it is not needed");
}

#[test]
fn a_wait_is_for_what_was_recorded_when_it_was_made() {
    let (machine, _here) = start(Schedule::Lazy);
    let (event, a, b, log) = (event(), stream(), stream(), Log::default());
    log.enqueue(&machine, a, 1);
    ok!(cuEventRecord(event, a));
    ok!(cuStreamWaitEvent(b, event, 0));
    log.enqueue(&machine, b, 10);
    log.enqueue(&machine, a, 2);
    ok!(cuEventRecord(event, a)); // recorded anew: the wait above does not see it
    ok!(cuEventDestroy_v2(event)); // nor does it need the event any more
    ok!(cuStreamSynchronize(b));
    assert_eq!(log.seen(), [1, 10]);
    ok!(cuStreamSynchronize(a));
    assert_eq!(log.seen(), [1, 10, 2]);
}

#[test]
fn without_a_wait_streams_are_not_ordered() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, b, log) = (stream(), stream(), Log::default());
    log.enqueue(&machine, a, 1);
    log.enqueue(&machine, b, 2);
    ok!(cuStreamSynchronize(b));
    assert_eq!(log.seen(), [2]);
}

#[test]
fn long_chains_of_waits_end() {
    let (machine, _here) = start(Schedule::Lazy);
    let (streams, event, log) = ([stream(), stream()], event(), Log::default());
    for i in 0..2000 {
        log.enqueue(&machine, streams[i % 2], u32::try_from(i).unwrap());
        ok!(cuEventRecord(event, streams[i % 2]));
        ok!(cuStreamWaitEvent(streams[(i + 1) % 2], event, 0));
    }
    ok!(cuEventSynchronize(event));
    assert!(log.seen().into_iter().eq(0..2000));
}

#[test]
fn a_context_records_and_waits_for_all_its_streams() {
    let (machine, _here) = start(Schedule::Lazy);
    let (event, a, b, c, log) = (event(), stream(), stream(), stream(), Log::default());
    let mut context = CuContext::NULL;
    ok!(cuCtxGetCurrent(&raw mut context));
    log.enqueue(&machine, a, 1);
    log.enqueue(&machine, b, 2);
    ok!(cuCtxRecordEvent(context, event));
    ok!(cuCtxWaitEvent(context, event));
    log.enqueue(&machine, c, 3);
    ok!(cuStreamSynchronize(c));
    assert_eq!(log.seen(), [1, 2, 3]);
}

#[test]
fn a_context_that_waits_makes_later_streams_wait() {
    let (machine, _here) = start(Schedule::Lazy);
    let (event, a, log) = (event(), stream(), Log::default());
    let mut context = CuContext::NULL;
    ok!(cuCtxGetCurrent(&raw mut context));
    log.enqueue(&machine, a, 1);
    ok!(cuEventRecord(event, a));
    ok!(cuCtxWaitEvent(context, event));
    let later = stream();
    log.enqueue(&machine, later, 2);
    ok!(cuStreamSynchronize(later));
    assert_eq!(log.seen(), [1, 2]);
}

#[test]
fn times_grow_with_the_work_between() {
    let (_machine, _here) = start(Schedule::Seeded(4));
    let (start, middle, end, untimed, stream, memory) =
        (event(), event(), event(), CuEvent::NULL, stream(), alloc(1 << 20));
    let mut untimed = untimed;
    ok!(cuEventCreate(&raw mut untimed, EVENT_DISABLE_TIMING));
    ok!(cuEventRecord(start, stream));
    ok!(cuMemsetD8Async(memory, 1, 1, stream));
    ok!(cuEventRecord(middle, stream));
    ok!(cuMemsetD8Async(memory, 1, 1 << 20, stream));
    ok!(cuEventRecord(end, stream));
    ok!(cuEventRecord(untimed, stream));
    ok!(cuStreamSynchronize(stream));
    let (mut short, mut long, mut back) = (0.0, 0.0, 0.0);
    ok!(cuEventElapsedTime_v2(&raw mut short, start, middle));
    ok!(cuEventElapsedTime_v2(&raw mut long, middle, end));
    ok!(cuEventElapsedTime_v2(&raw mut back, end, middle));
    assert!(0.0 < short && short < long, "{short} {long}");
    assert!((long + back).abs() < 1e-9);
    assert_eq!(
        cu!(cuEventElapsedTime_v2(&raw mut short, start, untimed)),
        CuResult::INVALID_HANDLE
    );
    assert_eq!(
        cu!(cuEventElapsedTime_v2(&raw mut short, start, event())),
        CuResult::INVALID_HANDLE
    );
}

#[test]
fn older_drivers_lack_newer_functions() {
    let (_machine, _here) = crate::common::enter(Machine::builder().driver_version(12040).build());
    let mut milliseconds = 0.0;
    assert_eq!(
        cu!(cuEventElapsedTime_v2(&raw mut milliseconds, event(), event())),
        CuResult::NOT_SUPPORTED
    );
}
