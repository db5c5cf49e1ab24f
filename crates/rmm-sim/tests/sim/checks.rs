//! The checks: what they report, what they do not, and the contents of a report.

use rmm_sim::{Kernel, Machine, Schedule, Violation, ViolationKind};
use rmm_sys::{AllocationEvent, CuContext, CuDevice, CuDevicePtr, CuResult, CuStream};

use crate::common::{alloc, alloc_async, blocking_stream, enter, event, pinned, start, stream};

pub(crate) fn kinds(machine: &Machine) -> Vec<ViolationKind> {
    machine.violations().iter().map(|violation| violation.kind).collect()
}

pub(crate) fn only(machine: &Machine) -> Violation {
    let violations = machine.violations();
    assert_eq!(violations.len(), 1, "{violations:?}");
    violations[0].clone()
}

/// A way to wait for a stream.
type Wait = (&'static str, fn(CuStream));

pub(crate) fn order(from: CuStream, to: CuStream) {
    let event = event();
    ok!(cuEventRecord(event, from));
    ok!(cuStreamWaitEvent(to, event, 0));
    ok!(cuEventDestroy_v2(event));
}

/// Makes an annotation, as an allocator would.
pub(crate) fn annotate(
    out: bool,
    owner: u64,
    pointer: CuDevicePtr,
    bytes: usize,
    stream: Option<CuStream>,
) {
    let listener = rmm_sim::driver().annotations.expect("the software device listens");
    let handing = AllocationEvent { owner, name: "test", pointer, bytes, stream };
    if out { listener.allocated(handing) } else { listener.freed(handing) }
}

fn at(pointer: CuDevicePtr, offset: u64) -> CuDevicePtr {
    CuDevicePtr(pointer.0 + offset)
}

#[test]
fn a_race_is_reported_whatever_runs_first() {
    for schedule in [Schedule::Eager, Schedule::Lazy, Schedule::Seeded(1)] {
        let (machine, _here) = start(schedule);
        let (a, b, memory) = (stream(), stream(), alloc(4096));
        ok!(cuMemsetD8Async(memory, 1, 4096, a));
        ok!(cuMemsetD8Async(at(memory, 1024), 2, 1024, b));
        let violation = only(&machine);
        assert_eq!(violation.kind, ViolationKind::Race);
        assert_eq!(
            violation.to_string(),
            "race: 1024 bytes at d0+0x400: fill writes it as item 1 of stream 2, then fill writes it as item 1 of stream 3: \
             stream 3 is not ordered after stream 2; record an event on stream 2 after item 1 and let stream 3 wait \
             for it"
        );
    }
}

#[test]
fn events_order_across_any_number_of_streams() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, b, c, memory) = (stream(), stream(), stream(), alloc(4096));
    ok!(cuMemsetD8Async(memory, 1, 4096, a));
    order(a, b);
    order(b, c);
    ok!(cuMemsetD8Async(memory, 2, 4096, c));
    machine.assert_no_violations();
    // Reads race only with writes.
    for stream in [a, b] {
        order(c, stream);
        machine.launch(stream, Kernel::new("sum", |_| ()).reads(memory, 4096)).unwrap();
    }
    machine.assert_no_violations();
    ok!(cuMemsetD8Async(memory, 3, 4096, c));
    assert_eq!(kinds(&machine), [ViolationKind::Race; 2], "each reader races with the writer");
}

#[test]
fn atomic_updates_race_with_everything_but_each_other() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, b, c, counter) = (stream(), stream(), stream(), alloc(4));
    for stream in [a, b, a] {
        machine.launch(stream, Kernel::new("count", |_| ()).updates(counter, 4)).unwrap();
    }
    machine.assert_no_violations();
    machine.launch(c, Kernel::new("look", |_| ()).reads(counter, 4)).unwrap();
    assert_eq!(kinds(&machine), [ViolationKind::Race; 2], "the last update of each stream");
    order(c, a);
    machine.launch(a, Kernel::new("count", |_| ()).updates(counter, 4)).unwrap();
    machine.launch(b, Kernel::new("count", |_| ()).updates(counter, 4)).unwrap();
    assert_eq!(kinds(&machine)[2..], [ViolationKind::Race], "only b is not ordered after the read");
}

#[test]
fn an_event_recorded_too_early_or_never_orders_nothing() {
    let (machine, _here) = start(Schedule::Eager);
    let (a, b, memory) = (stream(), stream(), alloc(64));
    let (early, never) = (event(), event());
    ok!(cuEventRecord(early, a));
    ok!(cuMemsetD8Async(memory, 1, 64, a));
    ok!(cuStreamWaitEvent(b, early, 0));
    ok!(cuStreamWaitEvent(b, never, 0));
    ok!(cuMemsetD8Async(memory, 2, 64, b));
    let missing = only(&machine).missing.expect("an edge is missing");
    assert_eq!(
        (missing.position, missing.reached),
        (2, 1),
        "ordered behind the record, not the fill"
    );
}

#[test]
fn work_that_the_host_waited_for_precedes_all_later_work() {
    let ways: [Wait; 4] = [
        ("a stream", |stream| ok!(cuStreamSynchronize(stream))),
        ("the device", |_| ok!(cuCtxSynchronize())),
        ("an event", |stream| {
            let event = event();
            ok!(cuEventRecord(event, stream));
            ok!(cuEventSynchronize(event));
        }),
        ("a query", |stream| while !cu!(cuStreamQuery(stream)).is_success() {}),
    ];
    for (what, wait) in ways {
        let (machine, _here) = start(Schedule::Lazy);
        let (a, b, memory) = (stream(), stream(), alloc(64));
        ok!(cuMemsetD8Async(memory, 1, 64, a));
        wait(a);
        ok!(cuMemsetD8Async(memory, 2, 64, b));
        assert!(machine.violations().is_empty(), "{what}: {:?}", machine.violations());
    }
}

#[test]
fn the_legacy_stream_orders_blocking_streams_only() {
    let (machine, _here) = start(Schedule::Lazy);
    let (blocking, free) = (blocking_stream(), stream());
    let (a, b) = (alloc(64), alloc(64));
    ok!(cuMemsetD8Async(a, 1, 64, blocking));
    ok!(cuMemsetD8Async(a, 2, 64, CuStream::LEGACY));
    ok!(cuMemsetD8Async(a, 3, 64, CuStream::PER_THREAD));
    machine.assert_no_violations();
    ok!(cuMemsetD8Async(b, 1, 64, free));
    ok!(cuMemsetD8Async(b, 2, 64, CuStream::LEGACY));
    assert_eq!(kinds(&machine), [ViolationKind::Race]);
}

#[test]
fn the_legacy_stream_orders_destroyed_blocking_streams() {
    let (machine, _here) = start(Schedule::Eager);
    let (blocking, free) = (blocking_stream(), stream());
    let memory = alloc(64);
    ok!(cuMemsetD8Async(memory, 1, 64, blocking));
    ok!(cuStreamDestroy_v2(blocking));
    ok!(cuMemsetD8Async(memory, 2, 64, CuStream::LEGACY));
    machine.assert_no_violations();
    order(CuStream::LEGACY, free);
    ok!(cuMemsetD8Async(memory, 3, 64, free));
    machine.assert_no_violations();
}

#[test]
fn destroying_a_stream_does_not_order_its_work() {
    let (machine, _here) = start(Schedule::Eager);
    let (a, b, memory) = (stream(), stream(), alloc(64));
    ok!(cuMemsetD8Async(memory, 1, 64, a));
    ok!(cuStreamDestroy_v2(a)); // it has run, but the program has not waited for it
    ok!(cuMemsetD8Async(memory, 2, 64, b));
    assert_eq!(kinds(&machine), [ViolationKind::Race]);
    ok!(cuCtxSynchronize());
    ok!(cuMemsetD8Async(memory, 3, 64, stream()));
    assert_eq!(machine.violations().len(), 1, "waiting for the device covers it");
}

#[test]
fn memory_in_stream_order_is_used_in_that_order() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, b) = (stream(), stream());
    let memory = alloc_async(64, a);
    ok!(cuMemsetD8Async(memory, 1, 64, b));
    assert_eq!(only(&machine).kind, ViolationKind::UseBeforeAllocation);
    ok!(cuMemFreeAsync(memory, a));
    assert_eq!(kinds(&machine)[1..], [ViolationKind::FreedInUse]);
    let memory = alloc_async(64, a);
    order(a, b);
    ok!(cuMemsetD8Async(memory, 1, 64, b));
    order(b, a);
    ok!(cuMemFreeAsync(memory, a));
    assert_eq!(machine.violations().len(), 2);
}

#[test]
fn pinned_memory_is_freed_after_the_host_waited_for_its_uses() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, memory) = (stream(), alloc(64));
    for waits in [true, false] {
        let host = pinned(64);
        ok!(cuMemcpyHtoDAsync_v2(memory, host.cast(), 64, a));
        if waits {
            ok!(cuStreamSynchronize(a));
        }
        ok!(cuMemFreeHost(host.cast()));
        assert_eq!(machine.violations().is_empty(), waits);
    }
    assert_eq!(only(&machine).kind, ViolationKind::FreedInUse);
}

#[test]
fn the_host_races_with_work_on_memory_that_it_shares() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, memory) = (stream(), alloc(64));
    let host = pinned(64);
    let shared = CuDevicePtr(host.addr() as u64);
    machine.host_writes(shared, 64).unwrap();
    ok!(cuMemcpyDtoHAsync_v2(host.cast(), memory, 64, a));
    machine.host_reads(shared, 64).unwrap();
    assert_eq!(only(&machine).kind, ViolationKind::Race);
    ok!(cuStreamSynchronize(a));
    machine.host_reads(shared, 64).unwrap();
    assert_eq!(machine.violations().len(), 1);
}

#[test]
fn safe_code_launches_and_writes_on_device_memory_only() {
    let (machine, _here) = start(Schedule::Lazy);
    let shared = CuDevicePtr(pinned(64).addr() as u64);
    let kernel = || Kernel::new("write", |_| ()).writes(shared, 64);
    assert_eq!(machine.launch(stream(), kernel()), Err(CuResult::INVALID_VALUE));
    assert_eq!(machine.write(shared, &[1]), Err(CuResult::INVALID_VALUE));
    // SAFETY: no code accesses the memory.
    assert_eq!(unsafe { machine.launch_on_shared(stream(), kernel()) }, Ok(()));
}

#[test]
fn frees_are_checked() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, memory) = (stream(), alloc(1024));
    let inside = cu!(cuMemFree_v2(at(memory, 512)));
    ok!(cuMemFree_v2(memory));
    let again = [
        inside,
        cu!(cuMemFree_v2(memory)),
        cu!(cuMemFreeAsync(memory, a)),
        cu!(cuMemsetD8Async(memory, 1, 64, a)),
    ];
    assert_eq!(again, [CuResult::INVALID_VALUE; 4]);
    assert_eq!(
        kinds(&machine),
        [
            ViolationKind::UnknownFree,
            ViolationKind::DoubleFree,
            ViolationKind::DoubleFree,
            ViolationKind::UseAfterFree,
        ]
    );
}

#[test]
fn suballocations_are_checked_like_allocations() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, b, chunk) = (stream(), stream(), alloc(1 << 20));
    annotate(true, 1, chunk, 1000, Some(a));
    annotate(true, 1, at(chunk, 1024), 1000, Some(b));
    ok!(cuMemsetD8Async(chunk, 1, 1000, a));
    machine.assert_no_violations();
    // One byte more is padding between two blocks; much more is the other block.
    ok!(cuMemsetD8Async(chunk, 1, 1001, a));
    ok!(cuMemsetD8Async(at(chunk, 4096), 1, 1, a));
    assert_eq!(kinds(&machine), [ViolationKind::OutOfBounds; 2]);
    annotate(false, 1, chunk, 1000, Some(a));
    ok!(cuMemsetD8Async(chunk, 1, 10, a));
    assert_eq!(kinds(&machine)[2..], [ViolationKind::UseAfterFree]);
    annotate(false, 1, chunk, 1000, Some(a));
    annotate(false, 1, at(chunk, 1024), 999, Some(b));
    annotate(false, 1, at(chunk, 8192), 10, None);
    assert_eq!(
        kinds(&machine)[3..],
        [ViolationKind::DoubleFree, ViolationKind::WrongSize, ViolationKind::UnknownFree]
    );
}

#[test]
fn a_suballocation_is_reused_on_another_stream_after_its_free() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, b, chunk) = (stream(), stream(), alloc(1 << 20));
    let turns: [(CuStream, bool); 4] = [(a, true), (a, true), (b, false), (b, true)];
    for (to, is_right) in turns {
        annotate(true, 1, chunk, 256, Some(to));
        assert_eq!(machine.violations().is_empty(), is_right);
        ok!(cuMemsetD8Async(chunk, 1, 256, to));
        annotate(false, 1, chunk, 256, Some(to));
        if !is_right {
            break;
        }
    }
    assert_eq!(kinds(&machine), [ViolationKind::AllocatedInUse]);
    order(b, a);
    annotate(true, 1, chunk, 256, Some(a));
    annotate(true, 1, chunk, 256, Some(a));
    assert_eq!(kinds(&machine)[1..], [ViolationKind::AllocatedTwice]);
}

#[test]
fn suballocations_nest() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, chunk) = (stream(), alloc(1 << 20));
    annotate(true, 1, chunk, 4096, Some(a)); // a block of the outer allocator
    annotate(true, 2, chunk, 256, Some(a)); // subdivided by the inner one
    ok!(cuMemsetD8Async(chunk, 1, 256, a));
    machine.assert_no_violations();
    ok!(cuMemsetD8Async(at(chunk, 256), 1, 256, a));
    assert_eq!(kinds(&machine), [ViolationKind::OutOfBounds]);
    annotate(false, 1, chunk, 4096, Some(a));
    assert_eq!(kinds(&machine)[1..], [ViolationKind::FreedWithSuballocations]);
}

#[test]
fn memory_is_freed_when_no_part_of_it_is_live() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, chunk) = (stream(), alloc(1 << 20));
    annotate(true, 1, at(chunk, 512), 256, Some(a));
    ok!(cuMemFree_v2(chunk));
    assert_eq!(kinds(&machine), [ViolationKind::FreedWithSuballocations]);
}

#[test]
fn uninitialised_reads_are_reported_on_request() {
    for asks in [false, true] {
        let (machine, _here) = enter(Machine::builder().check_initialisation(asks).build());
        let (a, from, to) = (stream(), alloc(64), alloc(64));
        ok!(cuMemsetD8Async(from, 1, 32, a));
        ok!(cuMemcpyDtoDAsync_v2(to, from, 32, a));
        machine.assert_no_violations();
        ok!(cuMemcpyDtoDAsync_v2(to, from, 33, a));
        assert_eq!(kinds(&machine) == [ViolationKind::UninitialisedRead], asks);
    }
}

#[test]
fn stale_handles_are_reported() {
    let (machine, _here) = start(Schedule::Lazy);
    let (stream, event) = (stream(), event());
    ok!(cuStreamDestroy_v2(stream));
    assert_eq!(cu!(cuEventRecord(event, stream)), CuResult::INVALID_HANDLE);
    ok!(cuEventDestroy_v2(event));
    assert_eq!(cu!(cuEventQuery(event)), CuResult::INVALID_HANDLE);
    let report: Vec<String> = machine.violations().iter().map(ToString::to_string).collect();
    assert_eq!(
        report,
        [
            "use of a destroyed handle: cuEventRecord was passed a stream that was destroyed",
            "use of a destroyed handle: cuEventQuery was passed an event that was destroyed",
        ]
    );
}

#[test]
fn an_event_is_recorded_on_streams_of_its_device() {
    let (machine, _here) = enter(Machine::builder().devices(2).build());
    let event = event();
    let mut context = CuContext::NULL;
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(1)));
    ok!(cuCtxSetCurrent(context));
    assert_eq!(cu!(cuEventRecord(event, stream())), CuResult::INVALID_HANDLE);
    assert_eq!(kinds(&machine), [ViolationKind::ForeignHandle]);
}

#[test]
fn reports_show_the_call_sites_of_both_accesses() {
    let (machine, _here) = enter(Machine::builder().backtraces(true).build());
    let memory = alloc(64);
    ok!(cuMemsetD8Async(memory, 1, 64, stream()));
    ok!(cuMemsetD8Async(memory, 2, 64, stream()));
    let violation = only(&machine);
    for access in [&violation.first, &violation.second] {
        let backtrace = access.as_ref().and_then(|access| access.backtrace.as_ref());
        let text = backtrace.expect("it was asked for").to_string();
        assert!(text.contains("reports_show_the_call_sites_of_both_accesses"), "{text}");
    }
}

#[test]
fn nothing_is_checked_with_checks_off() {
    let (machine, _here) = enter(Machine::builder().checks(false).build());
    let memory = alloc(64);
    ok!(cuMemsetD8Async(memory, 1, 64, stream()));
    ok!(cuMemsetD8Async(memory, 2, 64, stream()));
    machine.assert_no_violations();
}
