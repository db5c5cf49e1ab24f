//! Simulated time of the host, of streams, and between events.

use std::time::Duration;

use rmm_sim::{Costs, Kernel, Machine, MachineGuard, Schedule};
use rmm_sys::{CuContext, CuEvent, CuResult, CuStream};

use crate::common::{MIB, alloc, blocking_stream, enter, event, program, stream};

const US: Duration = Duration::from_micros(1);

/// A machine where only kernels, and calls with a cost set by the test, take time.
fn start(schedule: Schedule, costs: Costs) -> (Machine, MachineGuard) {
    enter(Machine::builder().schedule(schedule).costs(costs).build())
}

fn kernel(machine: &Machine, stream: CuStream, lasts: u32) {
    let kernel = Kernel::new("work", |_| ()).lasts(lasts * US);
    machine.launch(stream, kernel).expect("the stream is the machine's");
}

/// The time that the host waited until all work was complete.
fn synchronized(machine: &Machine) -> Duration {
    let before = machine.stalls().time;
    ok!(cuCtxSynchronize());
    machine.stalls().time.abs_diff(before)
}

fn order_after(earlier: CuStream, later: CuStream) {
    let event = event();
    ok!(cuEventRecord(event, earlier));
    ok!(cuStreamWaitEvent(later, event, 0));
    ok!(cuEventDestroy_v2(event));
}

#[test]
fn each_call_takes_its_time() {
    let costs = Costs::none().call("cuEventRecord", 3 * US).other_calls(7 * US);
    let (machine, _here) = start(Schedule::Lazy, costs);
    let (event, stream) = (event(), stream());
    let before = machine.time();
    ok!(cuEventRecord(event, stream));
    assert_eq!(machine.time(), before + 3 * US);
    let _ = cu!(cuEventQuery(event));
    assert_eq!(machine.time(), before + 10 * US);
}

#[test]
fn streams_work_side_by_side_and_the_host_waits_for_the_last() {
    let (machine, _here) = start(Schedule::Lazy, Costs::none());
    let (a, b) = (stream(), stream());
    kernel(&machine, a, 10);
    kernel(&machine, a, 20);
    kernel(&machine, b, 25);
    ok!(cuStreamSynchronize(b));
    assert_eq!((machine.stalls().count, machine.stalls().time), (1, 25 * US));
    ok!(cuStreamSynchronize(b));
    assert_eq!(machine.stalls().count, 1, "there is nothing to wait for");
    ok!(cuStreamSynchronize(a));
    assert_eq!((machine.stalls().count, machine.time()), (2, 30 * US));
}

#[test]
fn a_stream_that_waits_starts_later() {
    let (machine, _here) = start(Schedule::Lazy, Costs::none());
    let (a, b) = (stream(), stream());
    kernel(&machine, a, 10);
    kernel(&machine, b, 3);
    order_after(a, b);
    kernel(&machine, a, 5); // no stream waits for it
    kernel(&machine, b, 1);
    ok!(cuStreamSynchronize(b));
    assert_eq!(machine.time(), 11 * US);
}

#[test]
fn the_default_stream_waits_and_is_waited_for() {
    let (machine, _here) = start(Schedule::Lazy, Costs::none());
    let (blocking, other) = (blocking_stream(), stream());
    kernel(&machine, blocking, 10);
    kernel(&machine, other, 100);
    kernel(&machine, CuStream::LEGACY, 1);
    kernel(&machine, blocking, 2);
    ok!(cuStreamSynchronize(blocking));
    assert_eq!(machine.time(), 13 * US);
}

#[test]
fn a_context_waits_with_all_its_streams_and_those_to_come() {
    for (schedule, checks) in [(Schedule::Lazy, true), (Schedule::Eager, false)] {
        let builder = Machine::builder().schedule(schedule).checks(checks).costs(Costs::none());
        let (machine, _here) = enter(builder.build());
        let (a, gone, done) = (stream(), stream(), event());
        let mut context = CuContext::NULL;
        ok!(cuCtxGetCurrent(&raw mut context));
        kernel(&machine, a, 10);
        kernel(&machine, gone, 20);
        ok!(cuStreamDestroy_v2(gone)); // its work counts as long as it lasts
        ok!(cuCtxRecordEvent(context, done));
        ok!(cuCtxWaitEvent(context, done));
        let later = stream();
        kernel(&machine, later, 5);
        kernel(&machine, a, 3);
        ok!(cuStreamSynchronize(a));
        assert_eq!(machine.time(), 23 * US, "{schedule}");
        ok!(cuStreamSynchronize(later));
        assert_eq!(machine.time(), 25 * US, "{schedule}");
    }
}

#[test]
fn work_starts_once_it_is_enqueued() {
    let costs = Costs::none().call("cuLaunchKernel", 4 * US);
    let (machine, _here) = start(Schedule::Eager, costs);
    let stream = stream();
    for _ in 0..3 {
        kernel(&machine, stream, 1);
    }
    ok!(cuStreamSynchronize(stream));
    assert_eq!(machine.time(), 13 * US, "the stream is idle between");
}

#[test]
fn a_free_waits_for_the_device() {
    let (machine, _here) = start(Schedule::Eager, Costs::none());
    let (memory, stream) = (alloc(MIB), stream());
    kernel(&machine, stream, 9);
    ok!(cuMemFree_v2(memory));
    assert_eq!(machine.stalls().time, 9 * US);
}

#[test]
fn bytes_take_time() {
    let costs = Costs::none().work(US).bytes_per_microsecond(1 << 18);
    let (machine, _here) = start(Schedule::Lazy, costs);
    let memory = alloc(MIB);
    ok!(cuMemsetD8Async(memory, 1, MIB, CuStream::NULL));
    assert_eq!(synchronized(&machine), 5 * US);
}

fn elapsed(start: CuEvent, end: CuEvent) -> f32 {
    let mut milliseconds = 0.0;
    ok!(cuEventElapsedTime_v2(&raw mut milliseconds, start, end));
    milliseconds
}

#[test]
fn time_is_the_same_whatever_the_schedule() {
    let times = |schedule, checks| {
        let (machine, _here) = enter(Machine::builder().schedule(schedule).checks(checks).build());
        let (begin, end, a, b) = (event(), event(), stream(), stream());
        ok!(cuEventRecord(begin, a));
        kernel(&machine, b, 50);
        program(&machine);
        kernel(&machine, b, 50);
        order_after(b, a);
        ok!(cuStreamDestroy_v2(b)); // with work that may be done, or not
        ok!(cuEventRecord(end, a));
        ok!(cuEventSynchronize(end));
        (machine.time(), machine.stalls(), elapsed(begin, end).to_bits())
    };
    let expected = times(Schedule::Lazy, true);
    assert!(expected.1.count > 1);
    let schedules = [Schedule::Eager, Schedule::Lazy, Schedule::Timed];
    for schedule in schedules.into_iter().chain((0..5).map(Schedule::Seeded)) {
        assert_eq!(times(schedule, true), expected, "{schedule}");
        assert_eq!(times(schedule, false), expected, "{schedule} with no checks");
    }
}

#[test]
fn a_timed_query_finds_work_complete_after_its_duration() {
    let costs = Costs::none().call("cuStreamQuery", 2 * US);
    let (machine, _here) = start(Schedule::Timed, costs);
    let stream = stream();
    kernel(&machine, stream, 7);
    let mut queries = 0;
    while cu!(cuStreamQuery(stream)) == CuResult::NOT_READY {
        queries += 1;
    }
    // At 2, 4, 6 and 8 microseconds.
    assert_eq!((queries, machine.time(), machine.stalls().count), (3, 8 * US, 0));
}

#[test]
fn timed_polling_ends_even_if_calls_cost_nothing() {
    let (machine, _here) = start(Schedule::Timed, Costs::none());
    let stream = stream();
    kernel(&machine, stream, 1);
    while cu!(cuStreamQuery(stream)) == CuResult::NOT_READY {}
    assert!(machine.time() >= US);
}
