//! Faults, traces and the shutdown of the driver.

use rmm_sim::{Fault, Machine, Schedule, TraceEntry};
use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuResult, CuStream};

use crate::common::{MIB, alloc, program, start};

const CODE: CuResult = CuResult::UNKNOWN;

#[test]
fn calls_fail_by_name_and_number_without_effect() {
    let (machine, _here) = start(Schedule::Seeded(6));
    machine.fail(Fault::nth("cuMemAlloc_v2", 2, CODE));
    let (first, mut pointer) = (alloc(MIB), CuDevicePtr::NULL);
    assert_eq!(cu!(cuMemAlloc_v2(&raw mut pointer, MIB)), CODE);
    assert_eq!((pointer, machine.memory_in_use(0)), (CuDevicePtr::NULL, 2 * MIB));
    alloc(MIB);
    machine.fail(Fault::from_nth("cuMemFree_v2", 1, CODE));
    assert_eq!([cu!(cuMemFree_v2(first)), cu!(cuMemFree_v2(first))], [CODE; 2]);
    machine.clear_faults();
    ok!(cuMemFree_v2(first));
}

#[test]
fn any_call_can_fail() {
    let (machine, _here) = start(Schedule::Seeded(7));
    machine.fail(Fault::any_call(3, CODE));
    ok!(cuCtxSynchronize());
    alloc(1);
    assert_eq!(cu!(cuCtxSynchronize()), CODE);
    ok!(cuCtxSynchronize());
}

#[test]
fn calls_fail_randomly_by_their_seed() {
    let failures = |seed| {
        let (machine, _here) = start(Schedule::Eager);
        machine.fail(Fault::probability("cuCtxSynchronize", 0.5, seed, CODE));
        (0..64).map(|_| cu!(cuCtxSynchronize()).is_success()).collect::<Vec<_>>()
    };
    assert_eq!(failures(1), failures(1));
    assert_ne!(failures(1), failures(2));
    assert!((10..54).contains(&failures(3).into_iter().filter(|&fine| fine).count()));
}

#[test]
fn the_driver_can_be_shut_down() {
    let (machine, _here) = start(Schedule::Seeded(8));
    let pointer = alloc(1);
    machine.kill();
    assert_eq!(cu!(cuMemFree_v2(pointer)), CuResult::DEINITIALIZED);
    assert_eq!(cu!(cuInit(0)), CuResult::DEINITIALIZED);
}

#[test]
fn calls_are_counted() {
    let (machine, _here) = start(Schedule::Seeded(9));
    let before = machine.calls();
    alloc(1);
    let _ = cu!(cuMemFree_v2(CuDevicePtr(1)));
    let _ = cu!(cuLaunchKernel(
        rmm_sys::CuFunction::NULL,
        1,
        1,
        1,
        1,
        1,
        1,
        0,
        CuStream::NULL,
        std::ptr::null_mut(),
        std::ptr::null_mut()
    ));
    assert_eq!(machine.calls(), before + 3);
    assert!(machine.call_counts().contains(&("cuMemAlloc_v2", 1)));
    assert!(machine.call_counts().contains(&("cuLaunchKernel", 1)));
}

fn trace_of(schedule: Schedule) -> Vec<TraceEntry> {
    let (machine, _here) = start(schedule);
    machine.set_tracing(true);
    program(&machine);
    machine.assert_no_violations();
    assert_eq!(machine.leaks(), []);
    assert_eq!(machine.memory_in_use(0), 0);
    machine.trace()
}

#[test]
fn equal_seeds_give_equal_runs_and_different_ones_different_runs() {
    let trace = trace_of(Schedule::Seeded(10));
    assert_eq!(trace, trace_of(Schedule::Seeded(10)));
    assert_ne!(trace, trace_of(Schedule::Seeded(11)));
    assert_eq!(trace_of(Schedule::Lazy), trace_of(Schedule::Lazy));
    assert!(
        trace.iter().any(
            |entry| matches!(entry, TraceEntry::Work { what, .. } if what.starts_with("fill"))
        )
    );
}

#[test]
fn every_schedule_runs_the_same_work_of_a_stream_in_the_same_order() {
    let work_of = |schedule| {
        let mut work: Vec<_> = trace_of(schedule)
            .into_iter()
            .filter_map(|entry| {
                if let TraceEntry::Work { stream, position, .. } = entry {
                    Some((stream, position))
                } else {
                    None
                }
            })
            .collect();
        work.sort_by_key(|(stream, _)| *stream);
        work
    };
    assert_eq!(work_of(Schedule::Seeded(12)), work_of(Schedule::Eager));
    assert_eq!(work_of(Schedule::Seeded(12)), work_of(Schedule::Lazy));
}

#[test]
fn machines_are_independent() {
    let (first, here) = start(Schedule::Eager);
    let pointer = alloc(MIB);
    let (second, there) = start(Schedule::Eager);
    assert_eq!(second.memory_in_use(0), 0);
    assert_eq!(
        cu!(cuMemcpyDtoDAsync_v2(pointer, CuDevicePtr(1 << 20), 1, CuStream::NULL)),
        CuResult::INVALID_VALUE
    );
    drop(there);
    assert_eq!(alloc(MIB).0 - pointer.0, 2 << 20, "the first machine is the thread's again");
    drop(here);
    assert_eq!(first.leaks().len(), 2);
}

#[test]
fn handles_of_a_dropped_machine_are_invalid() {
    let mut context = CuContext::NULL;
    let gone = Machine::new();
    gone.scope(|| {
        ok!(cuInit(0));
        ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(0)));
    });
    drop(gone);
    let (_machine, _here) = start(Schedule::Eager);
    assert_eq!(cu!(cuCtxSetCurrent(context)), CuResult::INVALID_CONTEXT);
}

#[test]
fn large_allocations_of_every_kind_can_be_refused() {
    let (machine, _here) = start(Schedule::Seeded(13));
    machine.fail(Fault::out_of_memory_above(MIB));
    let (mut pointer, mut host) = (CuDevicePtr::NULL, std::ptr::null_mut());
    for (bytes, code) in [(MIB, CuResult::SUCCESS), (MIB + 1, CuResult::OUT_OF_MEMORY)] {
        assert_eq!(cu!(cuMemAlloc_v2(&raw mut pointer, bytes)), code);
        assert_eq!(cu!(cuMemAllocManaged(&raw mut pointer, bytes, 1)), code);
        assert_eq!(cu!(cuMemAllocAsync(&raw mut pointer, bytes, CuStream::NULL)), code);
        assert_eq!(cu!(cuMemHostAlloc(&raw mut host, bytes, 0)), code);
    }
    assert_eq!(machine.leaks().len(), 4);
    let large = ["cuMemAlloc_v2", "cuMemAllocManaged", "cuMemAllocAsync", "cuMemHostAlloc"];
    assert_eq!(machine.failed_calls(), large);
}

#[test]
fn a_lost_device_stays_lost() {
    let (machine, _here) = start(Schedule::Seeded(14));
    machine.fail(Fault::device_lost(2));
    let pointer = alloc(1);
    for _ in 0..3 {
        assert_eq!(cu!(cuMemFree_v2(pointer)), CuResult::ILLEGAL_ADDRESS);
        assert_eq!(cu!(cuCtxSynchronize()), CuResult::ILLEGAL_ADDRESS);
    }
}

#[test]
fn faults_do_not_count_calls_while_suspended() {
    let (machine, _here) = start(Schedule::Seeded(15));
    machine.fail(Fault::any_call(2, CODE));
    alloc(1);
    let pointer = machine.without_faults(|| alloc(1));
    drop(std::panic::catch_unwind(|| machine.without_faults(|| panic!("on purpose"))));
    assert_eq!(cu!(cuMemFree_v2(pointer)), CODE, "the second call that the fault counts");
    assert_eq!(machine.failed_calls(), ["cuMemFree_v2"]);
}
