//! Events: long chains of them, and the time between two. The probes of the conformance suite state
//! what they record and when they are complete.

use rmm_sim::{Machine, Schedule};
use rmm_sys::CuResult;

use crate::common::{Log, alloc, event, start, stream};

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
fn times_grow_with_the_work_between() {
    let (_machine, _here) = start(Schedule::Seeded(4));
    let (start, middle, end) = (event(), event(), event());
    let (stream, memory) = (stream(), alloc(1 << 20));
    ok!(cuEventRecord(start, stream));
    ok!(cuMemsetD8Async(memory, 1, 1, stream));
    ok!(cuEventRecord(middle, stream));
    ok!(cuMemsetD8Async(memory, 1, 1 << 20, stream));
    ok!(cuEventRecord(end, stream));
    ok!(cuStreamSynchronize(stream));
    let (mut short, mut long, mut back) = (0.0, 0.0, 0.0);
    ok!(cuEventElapsedTime_v2(&raw mut short, start, middle));
    ok!(cuEventElapsedTime_v2(&raw mut long, middle, end));
    ok!(cuEventElapsedTime_v2(&raw mut back, end, middle));
    assert!(0.0 < short && short < long, "{short} {long}");
    assert!((long + back).abs() < 1e-9);
}

#[test]
fn older_drivers_lack_newer_functions() {
    let (_machine, _here) = crate::common::enter(Machine::builder().driver_version(12040).build());
    let (stream, start, end) = (stream(), event(), event());
    ok!(cuEventRecord(start, stream));
    ok!(cuMemsetD8Async(alloc(1 << 20), 1, 1 << 20, stream));
    ok!(cuEventRecord(end, stream));
    ok!(cuStreamSynchronize(stream));
    let mut milliseconds = 0.0;
    assert_eq!(
        cu!(cuEventElapsedTime_v2(&raw mut milliseconds, start, end)),
        CuResult::NOT_SUPPORTED
    );
    ok!(cuEventElapsedTime(&raw mut milliseconds, start, end));
    assert!(milliseconds > 0.0, "the older form is there: {milliseconds}");
}
