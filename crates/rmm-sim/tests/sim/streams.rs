//! Streams: their order, their identity and their end.

use std::ffi::c_void;

use rmm_sim::{Machine, Schedule, ViolationKind};
use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuResult, CuStream};

use crate::common::{Log, alloc, blocking_stream, enter, event, peek, start, stream};

fn id(stream: CuStream) -> u64 {
    let mut id = 0;
    ok!(cuStreamGetId(stream, &raw mut id));
    id
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams() {
    let (machine, _here) = start(Schedule::Lazy);
    let (blocking, other, log) = (blocking_stream(), stream(), Log::default());
    log.enqueue(&machine, blocking, 1);
    log.enqueue(&machine, other, 2);
    log.enqueue(&machine, CuStream::PER_THREAD, 3);
    log.enqueue(&machine, CuStream::NULL, 4);
    ok!(cuStreamSynchronize(CuStream::LEGACY));
    assert_eq!(log.seen(), [1, 3, 4], "and not for streams that do not block");
}

#[test]
fn blocking_streams_wait_for_the_legacy_stream() {
    let (machine, _here) = start(Schedule::Lazy);
    let (blocking, other, log) = (blocking_stream(), stream(), Log::default());
    log.enqueue(&machine, CuStream::LEGACY, 1);
    log.enqueue(&machine, other, 2);
    ok!(cuStreamSynchronize(other));
    assert_eq!(log.seen(), [2]);
    log.enqueue(&machine, blocking, 3);
    ok!(cuStreamSynchronize(blocking));
    assert_eq!(log.seen(), [2, 1, 3]);
}

#[test]
fn a_wait_for_the_legacy_stream_waits_for_blocking_ones() {
    let (machine, _here) = start(Schedule::Lazy);
    let (blocking, log) = (blocking_stream(), Log::default());
    log.enqueue(&machine, blocking, 1);
    assert_eq!(cu!(cuStreamQuery(CuStream::NULL)), CuResult::NOT_READY);
    ok!(cuStreamSynchronize(CuStream::NULL));
    assert_eq!(log.seen(), [1]);
}

#[test]
fn a_destroyed_stream_still_runs_its_work() {
    let (machine, _here) = start(Schedule::Lazy);
    let (gone, memory) = (stream(), alloc(1));
    ok!(cuMemsetD8Async(memory, 8, 1, gone));
    ok!(cuStreamDestroy_v2(gone));
    assert_eq!(peek(&machine, memory), 0);
    machine.run_all();
    assert_eq!(peek(&machine, memory), 8);
    assert_eq!(machine.leaks().len(), 1, "the memory alone");
}

#[test]
fn handles_are_reused_and_ids_are_not() {
    let (_machine, _here) = start(Schedule::Lazy);
    let (a, b) = (stream(), stream());
    let (id_a, id_b) = (id(a), id(b));
    ok!(cuStreamDestroy_v2(a));
    ok!(cuStreamDestroy_v2(b));
    assert_eq!(cu!(cuStreamSynchronize(b)), CuResult::INVALID_HANDLE);
    assert_eq!(cu!(cuStreamDestroy_v2(b)), CuResult::INVALID_HANDLE);
    let again = stream();
    assert_eq!(again, b, "the last one destroyed comes first");
    assert!(![id_a, id_b, id(CuStream::NULL)].contains(&id(again)));
    let old = event();
    ok!(cuEventDestroy_v2(old));
    assert_eq!(cu!(cuEventQuery(old)), CuResult::INVALID_HANDLE);
    assert_eq!(event(), old);
}

#[test]
fn default_streams_have_ids_by_context_and_thread() {
    let (machine, _here) = start(Schedule::Lazy);
    assert_eq!((id(CuStream::NULL), id(CuStream::LEGACY)), (1, 1));
    let mine = id(CuStream::PER_THREAD);
    assert_eq!(id(CuStream::PER_THREAD), mine);
    let theirs = std::thread::spawn(move || {
        let (_machine, _here) = enter(machine);
        id(CuStream::PER_THREAD)
    });
    assert_ne!(theirs.join().unwrap(), mine);
}

#[test]
fn host_functions_run_in_order_and_cannot_call_the_driver() {
    unsafe extern "C" fn call_back(data: *mut c_void) {
        let code = cu!(cuCtxSynchronize());
        // SAFETY: the test passes a place for a code that outlives the work.
        unsafe { data.cast::<CuResult>().write(code) };
    }
    let (_machine, _here) = start(Schedule::Lazy);
    let (stream, mut code) = (stream(), CuResult::SUCCESS);
    ok!(cuLaunchHostFunc(stream, Some(call_back), (&raw mut code).cast()));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(code, CuResult::NOT_PERMITTED);
    assert_eq!(cu!(cuLaunchHostFunc(stream, None, std::ptr::null_mut())), CuResult::INVALID_VALUE);
}

#[test]
fn kernels_access_only_what_they_declare() {
    let (machine, _here) = start(Schedule::Lazy);
    let (stream, a, b) = (stream(), alloc(4), alloc(4));
    ok!(cuMemsetD8Async(a, 3, 4, stream));
    let kernel = rmm_sim::Kernel::new("double", move |memory| {
        let mut bytes = [0; 4];
        memory.read(a, &mut bytes).unwrap();
        memory.write(b, &bytes.map(|byte| byte * 2)).unwrap();
        assert_eq!(memory.write(a, &[0]), Err(CuResult::ILLEGAL_ADDRESS));
        assert_eq!(memory.read(CuDevicePtr(b.0 + 1), &mut bytes), Err(CuResult::ILLEGAL_ADDRESS));
    });
    machine.launch(stream, kernel.reads(a, 4).writes(b, 4)).unwrap();
    machine.launch(stream, rmm_sim::Kernel::new("broken", |_| panic!("of no use"))).unwrap();
    ok!(cuStreamSynchronize(stream));
    assert_eq!(peek(&machine, b), 6);
    let [violation] = &machine.violations()[..] else { panic!("one kernel panicked") };
    assert_eq!(violation.kind, ViolationKind::KernelPanicked);
    assert_eq!(violation.to_string(), "kernel panicked: broken");
}

#[test]
fn calls_that_create_objects_need_a_context() {
    let machine = Machine::builder().devices(2).build();
    let _here = machine.enter();
    ok!(cuInit(0));
    let (mut pointer, mut handle) = (CuDevicePtr::NULL, CuStream::NULL);
    assert_eq!(cu!(cuMemAlloc_v2(&raw mut pointer, 1)), CuResult::INVALID_CONTEXT);
    assert_eq!(cu!(cuStreamCreateWithPriority(&raw mut handle, 0, 0)), CuResult::INVALID_CONTEXT);
    let mut contexts = [CuContext::NULL; 2];
    for (device, context) in contexts.iter_mut().enumerate() {
        ok!(cuDevicePrimaryCtxRetain(context, CuDevice(i32::try_from(device).unwrap())));
    }
    ok!(cuCtxPushCurrent_v2(contexts[0]));
    ok!(cuCtxPushCurrent_v2(contexts[1]));
    let mut device = CuDevice(-1);
    ok!(cuCtxGetDevice(&raw mut device));
    assert_eq!(device, CuDevice(1));
    let on_second = alloc(1);
    let mut popped = CuContext::NULL;
    ok!(cuCtxPopCurrent_v2(&raw mut popped));
    assert_eq!(popped, contexts[1]);
    ok!(cuCtxGetDevice(&raw mut device));
    assert_eq!(device, CuDevice(0));
    assert_eq!((machine.memory_in_use(0), machine.memory_in_use(1)), (0, 2 << 20));
    ok!(cuMemFree_v2(on_second));
    ok!(cuDevicePrimaryCtxRelease_v2(CuDevice(0)));
    assert_eq!(cu!(cuMemAlloc_v2(&raw mut pointer, 1)), CuResult::CONTEXT_IS_DESTROYED);
}
