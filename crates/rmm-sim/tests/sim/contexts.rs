//! Contexts that a failed kernel has lost, and contexts that are reset.

use std::ffi::{c_int, c_uint};

use rmm_sim::{Kernel, Machine, Schedule, ViolationKind};
use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuEvent, CuResult, CuStream, STREAM_NON_BLOCKING};

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

fn is_active() -> bool {
    let (mut flags, mut active): (c_uint, c_int) = (7, 7);
    ok!(cuDevicePrimaryCtxGetState(CuDevice(0), &raw mut flags, &raw mut active));
    assert_eq!(flags, 0);
    active == 1
}

fn id() -> u64 {
    let mut id = 0;
    ok!(cuCtxGetId(CuContext::NULL, &raw mut id));
    id
}

#[test]
fn every_call_in_a_lost_context_returns_its_failure() {
    for schedule in SCHEDULES {
        let (machine, _here) = start(schedule);
        let (own, done, memory, host) = (stream(), event(), alloc(MIB), pinned(MIB));
        ok!(cuEventRecord(done, own));
        fail(&machine, own);
        assert_eq!(cu!(cuStreamSynchronize(own)), CODE);
        let (mut pointer, mut other) = (CuDevicePtr::NULL, CuStream::NULL);
        let (mut page, mut mark) = (std::ptr::null_mut(), CuEvent::NULL);
        let codes = [
            cu!(cuCtxSynchronize()),
            cu!(cuMemAlloc_v2(&raw mut pointer, 1)),
            cu!(cuMemAllocAsync(&raw mut pointer, 1, own)),
            cu!(cuMemFree_v2(memory)),
            cu!(cuMemHostAlloc(&raw mut page, 1, 0)),
            cu!(cuMemFreeHost(host.cast())),
            cu!(cuMemsetD8Async(memory, 1, 1, CuStream::NULL)),
            cu!(cuStreamCreateWithPriority(&raw mut other, STREAM_NON_BLOCKING, 0)),
            cu!(cuStreamQuery(own)),
            cu!(cuStreamWaitEvent(own, done, 0)),
            cu!(cuStreamDestroy_v2(own)),
            cu!(cuEventCreate(&raw mut mark, 0)),
            cu!(cuEventQuery(done)),
            cu!(cuEventSynchronize(done)),
            cu!(cuEventDestroy_v2(done)),
        ];
        assert_eq!(codes, [CODE; 15]);
        let refused = machine.launch(own, Kernel::new("late", |_| ()));
        assert_eq!(refused, Err(CODE));
        machine.assert_no_violations();
        assert_eq!(machine.leaks(), [], "its objects cannot be released");
    }
}

#[test]
fn calls_without_a_context_work_after_its_loss() {
    let (machine, _here) = start(Schedule::Eager);
    let (own, mut count, mut device) = (context(), 0, CuDevice(7));
    machine.fail_context(0, CODE);
    ok!(cuDeviceGetCount(&raw mut count));
    ok!(cuCtxGetDevice(&raw mut device));
    ok!(cuCtxPushCurrent_v2(own));
    ok!(cuCtxSetCurrent(own));
    assert_eq!((count, device, context()), (1, CuDevice(0), own));
    assert_eq!(cu!(cuCtxSynchronize()), CODE);
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
    let (own, before, handles) = (context(), id(), (stream(), event()));
    let (memory, log) = (alloc(MIB), Log::default());
    log.enqueue(&machine, handles.0, 1);
    assert!(is_active());
    reset();
    assert!(!is_active());
    assert_eq!((machine.memory_in_use(0), machine.leaks()), (0, vec![]));
    assert_eq!(context(), own, "it stays current");
    assert_eq!(cu!(cuCtxSynchronize()), CuResult::CONTEXT_IS_DESTROYED);
    assert_eq!(cu!(cuCtxSetCurrent(own)), CuResult::CONTEXT_IS_DESTROYED);
    assert_eq!(cu!(cuStreamQuery(handles.0)), CuResult::INVALID_HANDLE);
    assert_eq!(cu!(cuEventQuery(handles.1)), CuResult::INVALID_HANDLE);
    assert_eq!(retain(), own, "the next context has the same handle");
    assert!(is_active());
    assert_ne!(id(), before);
    ok!(cuCtxSynchronize());
    assert_eq!((alloc(MIB), stream(), event()), (memory, handles.0, handles.1));
    machine.run_all();
    assert_eq!(log.seen(), [], "queued work was discarded");
}

#[test]
fn a_reset_does_not_restore_a_lost_context() {
    let (machine, _here) = start(Schedule::Lazy);
    let memory = alloc(MIB);
    machine.fail_context(0, CODE);
    reset();
    assert!(!is_active());
    let mut next = CuContext::NULL;
    assert_eq!(cu!(cuDevicePrimaryCtxRetain(&raw mut next, CuDevice(0))), CODE);
    assert_eq!(machine.memory_in_use(0), 0, "{memory:?} went with its context");
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
fn retains_outlive_a_reset() {
    let (_machine, _here) = start(Schedule::Eager);
    reset();
    retain();
    ok!(cuDevicePrimaryCtxRelease_v2(CuDevice(0)));
    assert!(is_active(), "the retain from before the reset counts");
    ok!(cuDevicePrimaryCtxRelease_v2(CuDevice(0)));
    assert!(!is_active());
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(CuDevice(0))), CuResult::INVALID_CONTEXT);
}

#[test]
fn the_last_release_destroys_the_objects_of_the_context() {
    let (machine, _here) = start(Schedule::Lazy);
    alloc(MIB);
    stream();
    ok!(cuDevicePrimaryCtxRelease_v2(CuDevice(0)));
    assert_eq!((machine.memory_in_use(0), machine.leaks()), (0, vec![]));
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
