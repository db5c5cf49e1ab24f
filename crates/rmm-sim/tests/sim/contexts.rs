//! Contexts that a failed kernel has lost, and contexts that are reset.

use rmm_sim::{Kernel, Machine, Schedule, ViolationKind};
use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuResult, CuStream};

use crate::common::{
    Log, MIB, alloc, alloc_async, context, default_pool, enter, event, pinned, start, stream,
    try_alloc_async,
};

const CODE: CuResult = CuResult::ILLEGAL_ADDRESS;
const SCHEDULES: [Schedule; 3] = [Schedule::Eager, Schedule::Lazy, Schedule::Seeded(3)];

fn fail(machine: &Machine, stream: CuStream) {
    machine.launch(stream, Kernel::new("wild", |_| ()).fails(CODE)).expect("the stream is there");
}

fn reset() {
    ok!(cuDevicePrimaryCtxReset_v2(CuDevice(0)));
}

fn retain() -> CuContext {
    let mut context = CuContext::NULL;
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(0)));
    context
}

#[test]
fn a_lost_context_launches_nothing_and_leaks_nothing() {
    for schedule in SCHEDULES {
        let (machine, _here) = start(schedule);
        let own = stream();
        alloc(MIB);
        pinned(MIB);
        fail(&machine, own);
        assert_eq!(cu!(cuStreamSynchronize(own)), CODE);
        assert_eq!(machine.launch(own, Kernel::new("late", |_| ())), Err(CODE));
        machine.assert_no_violations();
        assert_eq!(machine.leaks(), [], "its objects cannot be released");
    }
}

#[test]
fn a_context_is_lost_at_once_on_request() {
    let (machine, _here) = start(Schedule::Eager);
    machine.fail_context(0, CODE);
    assert_eq!(cu!(cuCtxSynchronize()), CODE);
    reset();
    assert_eq!(machine.memory_in_use(0), 0);
    let mut next = CuContext::NULL;
    assert_eq!(cu!(cuDevicePrimaryCtxRetain(&raw mut next, CuDevice(0))), CODE);
}

#[test]
fn work_after_a_failed_kernel_never_runs() {
    for schedule in SCHEDULES {
        let (machine, _here) = enter(Machine::builder().devices(2).schedule(schedule).build());
        let (log, other) = (Log::default(), other_device());
        let (own, marks) = (stream(), [event(), event()]);
        log.enqueue(&machine, own, 1);
        ok!(cuEventRecord(marks[0], own));
        fail(&machine, own);
        let behind = Log::default();
        let to_wait = machine.launch(own, {
            let behind = behind.clone();
            Kernel::new("behind", move |_| drop(behind.clone()))
        });
        // The device may have failed by then.
        assert!(matches!(to_wait, Ok(()) | Err(CODE)));
        assert_eq!(cu!(cuCtxSynchronize()), CODE);
        assert_eq!(log.seen(), [1]);
        // The other device is not affected.
        log.enqueue(&machine, other, 2);
        ok!(cuStreamSynchronize(other));
        ok!(cuStreamDestroy_v2(other));
        assert_eq!(log.seen(), [1, 2]);
        machine.run_all();
        assert_eq!(cu!(cuEventQuery(marks[1])), CODE);
    }
}

/// A stream of the second device.
fn other_device() -> CuStream {
    let (mut context, mut popped) = (CuContext::NULL, CuContext::NULL);
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(1)));
    ok!(cuCtxPushCurrent_v2(context));
    let other = stream();
    ok!(cuCtxPopCurrent_v2(&raw mut popped));
    other
}

#[test]
fn a_free_that_waits_for_a_kernel_that_fails_frees_nothing() {
    let (machine, _here) = start(Schedule::Lazy);
    let memory = alloc(MIB);
    fail(&machine, stream());
    assert_eq!(cu!(cuMemFree_v2(memory)), CODE);
    assert_eq!(machine.memory_in_use(0), 2 * MIB);
}

#[test]
fn a_reset_destroys_the_objects_of_the_context() {
    let (machine, _here) = start(Schedule::Lazy);
    let (own, handles) = (context(), (stream(), event()));
    let (memory, log) = (alloc(MIB), Log::default());
    log.enqueue(&machine, handles.0, 1);
    reset();
    assert_eq!((machine.memory_in_use(0), machine.leaks()), (0, vec![]));
    assert_eq!(context(), own, "it stays current");
    assert_eq!(cu!(cuCtxSetCurrent(own)), CuResult::CONTEXT_IS_DESTROYED);
    assert_eq!(cu!(cuStreamQuery(handles.0)), CuResult::INVALID_HANDLE);
    assert_eq!(cu!(cuEventQuery(handles.1)), CuResult::INVALID_HANDLE);
    assert_eq!(retain(), own, "the next context has the same handle");
    ok!(cuCtxSynchronize());
    assert_eq!((alloc(MIB), stream(), event()), (memory, handles.0, handles.1));
    machine.run_all();
    assert_eq!(log.seen(), [], "queued work was discarded");
}

#[test]
fn a_reset_waits_for_running_work() {
    let (machine, _here) = start(Schedule::Lazy);
    let (memory, own) = (alloc(MIB), stream());
    let [begun, go_on] = [(); 2].map(|()| std::sync::Arc::new(std::sync::Barrier::new(2)));
    let kernel = Kernel::new("slow", {
        let (begun, go_on) = (begun.clone(), go_on.clone());
        move |memory_of_kernel| {
            begun.wait();
            go_on.wait();
            memory_of_kernel.write(memory, &[1]).expect("the memory is there");
        }
    });
    machine.launch(own, kernel.writes(memory, MIB)).expect("the stream is there");
    std::thread::scope(|scope| {
        scope.spawn(|| machine.scope(|| cu!(cuStreamSynchronize(own))));
        begun.wait();
        scope.spawn(|| {
            go_on.wait();
        });
        reset();
    });
    machine.assert_no_violations();
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn the_last_release_destroys_the_objects_of_the_context() {
    let (machine, _here) = start(Schedule::Lazy);
    alloc(MIB);
    stream();
    ok!(cuDevicePrimaryCtxRelease_v2(CuDevice(0)));
    assert_eq!((machine.memory_in_use(0), machine.leaks()), (0, vec![]));
    let mut pointer = CuDevicePtr::NULL;
    assert_eq!(cu!(cuMemAlloc_v2(&raw mut pointer, 1)), CuResult::CONTEXT_IS_DESTROYED);
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(CuDevice(0))), CuResult::INVALID_CONTEXT);
}

#[test]
fn a_use_of_memory_of_a_reset_context_is_reported() {
    let (machine, _here) = start(Schedule::Eager);
    let memory = alloc(MIB);
    reset();
    retain();
    let kernel = Kernel::new("late", |_| ()).writes(memory, MIB);
    assert_eq!(machine.launch(CuStream::NULL, kernel), Err(CuResult::INVALID_VALUE));
    let [violation] = &machine.violations()[..] else { panic!("{:?}", machine.violations()) };
    assert_eq!(violation.kind, ViolationKind::UseAfterFree);
    assert!(violation.to_string().contains("cuDevicePrimaryCtxReset_v2"), "{violation}");
}

/// Memory of a pool, accessed by work that no call has waited for.
fn pool_memory_in_use(machine: &Machine) -> CuDevicePtr {
    let memory = alloc_async(MIB, CuStream::NULL);
    ok!(cuCtxSynchronize());
    let kernel = Kernel::new("early", |_| ()).writes(memory, MIB);
    machine.launch(stream(), kernel).expect("the memory is there");
    memory
}

#[test]
fn work_before_a_reset_does_not_race_with_work_after_it() {
    for schedule in SCHEDULES {
        let (machine, _here) = start(schedule);
        let memory = pool_memory_in_use(&machine);
        reset();
        retain();
        let kernel = Kernel::new("late", |_| ()).writes(memory, MIB);
        machine.launch(stream(), kernel).expect("memory of pools outlives a reset");
        ok!(cuCtxSynchronize());
        ok!(cuMemFree_v2(memory));
        machine.assert_no_violations();
    }
}

#[test]
fn a_reset_ends_pools_on_request() {
    let machine = Machine::builder().schedule(Schedule::Lazy).reset_ends_all(true).build();
    let (machine, _here) = enter(machine);
    let (memory, pool) = (pool_memory_in_use(&machine), default_pool());
    reset();
    retain();
    assert_eq!(machine.memory_in_use(0), 0);
    assert_eq!(cu!(cuMemFreeAsync(memory, CuStream::NULL)), CuResult::INVALID_VALUE);
    assert_eq!(default_pool(), pool);
    let again = try_alloc_async(MIB, CuStream::NULL);
    assert_eq!(again, Ok(memory), "the pool still allocates");
}

#[test]
fn the_end_of_a_context_waits_for_no_work_of_another() {
    for ends in [|_: &Machine| reset(), |machine: &Machine| machine.fail_context(0, CODE)] {
        let (machine, _here) =
            enter(Machine::builder().devices(2).schedule(Schedule::Lazy).build());
        let (own, theirs, late) = (stream(), other_device(), other_device());
        let mut context = CuContext::NULL;
        ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(1)));
        ok!(cuCtxPushCurrent_v2(context));
        let (memory, mark) = (alloc(MIB), event());
        ok!(cuCtxPopCurrent_v2(&raw mut context));
        let writes = |name| Kernel::new(name, |_| ()).writes(memory, MIB);
        machine.launch(theirs, writes("early")).expect("the stream is there");
        ok!(cuEventRecord(mark, theirs));
        ok!(cuStreamWaitEvent(own, mark, 0));
        ends(&machine);
        machine.launch(late, writes("late")).expect("the device is not affected");
        let [violation] = &machine.violations()[..] else { panic!("{:?}", machine.violations()) };
        assert_eq!(violation.kind, ViolationKind::Race);
    }
}
