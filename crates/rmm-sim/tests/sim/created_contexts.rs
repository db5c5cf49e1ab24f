//! Contexts beside the primary ones: `cuCtxCreate` and `cuCtxDestroy`.

use rmm_sim::{Kernel, LeakKind, Schedule, ViolationKind, create_context, destroy_context};
use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuPointerAttribute, CuResult, CuStream};

use crate::common::{alloc, blocking_stream, event, start, stream};

/// A new context of device 0, which is current afterwards.
fn created() -> CuContext {
    let mut context = CuContext::NULL;
    // SAFETY: `context` is valid for a write.
    let code = unsafe { create_context(&raw mut context, 0, CuDevice(0)) };
    assert_eq!(code, CuResult::SUCCESS);
    context
}

fn current() -> CuContext {
    let mut context = CuContext::NULL;
    ok!(cuCtxGetCurrent(&raw mut context));
    context
}

fn context_of(memory: CuDevicePtr) -> CuContext {
    let mut context = CuContext::NULL;
    ok!(cuPointerGetAttribute((&raw mut context).cast(), CuPointerAttribute::CONTEXT, memory));
    context
}

#[test]
fn memory_streams_and_events_belong_to_the_created_context() {
    let (machine, _here) = start(Schedule::Lazy);
    let (primary, of_primary) = (current(), event());
    let context = created();
    let (memory, own, of_own) = (alloc(4096), stream(), event());
    let mut of_stream = CuContext::NULL;
    ok!(cuStreamGetCtx(own, &raw mut of_stream));
    assert_eq!((of_stream, context_of(memory)), (context, context));
    ok!(cuStreamGetCtx(CuStream::NULL, &raw mut of_stream));
    assert_eq!(of_stream, context, "the default stream is that of the current context");
    ok!(cuEventRecord(of_own, own));
    assert_eq!(cu!(cuEventRecord(of_primary, own)), CuResult::INVALID_HANDLE);
    assert_eq!(machine.violations()[0].kind, ViolationKind::ForeignHandle);
    assert_eq!(destroy_context(context), CuResult::SUCCESS);
    ok!(cuCtxSetCurrent(primary));
    assert_eq!(cu!(cuStreamSynchronize(own)), CuResult::INVALID_HANDLE);
    assert_eq!(cu!(cuMemFree_v2(memory)), CuResult::INVALID_VALUE);
    ok!(cuEventDestroy_v2(of_primary));
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn the_legacy_stream_waits_for_its_own_context_only() {
    let (machine, _here) = start(Schedule::Lazy);
    let (shared, memory, blocking) = (alloc(4096), alloc(4096), blocking_stream());
    let write = |to| Kernel::new("write", |_| ()).writes(to, 4096);
    machine.launch(blocking, write(shared)).unwrap();
    machine.launch(CuStream::NULL, write(shared)).unwrap();
    assert!(machine.violations().is_empty(), "one context: the default stream waits");
    machine.launch(blocking, write(memory)).unwrap();
    let context = created();
    machine.launch(CuStream::NULL, write(memory)).unwrap();
    assert_eq!(machine.violations()[0].kind, ViolationKind::Race);
    assert_eq!(destroy_context(context), CuResult::SUCCESS);
}

#[test]
fn a_destroyed_context_is_refused_and_its_work_has_run() {
    let (machine, _here) = start(Schedule::Lazy);
    let (context, own) = (created(), stream());
    let (sender, has_run) = std::sync::mpsc::channel();
    let kernel = Kernel::new("kernel", move |_| sender.send(()).expect("the test receives"));
    machine.launch(own, kernel).unwrap();
    ok!(cuCtxPushCurrent_v2(context)); // twice on the stack
    assert_eq!(destroy_context(context), CuResult::SUCCESS);
    has_run.try_recv().expect("a destroyed context has completed its work");
    assert_eq!(current(), context, "the second entry stays");
    assert_eq!(cu!(cuCtxSynchronize()), CuResult::CONTEXT_IS_DESTROYED);
    assert_eq!(destroy_context(context), CuResult::CONTEXT_IS_DESTROYED);
}

#[test]
fn a_reset_of_the_primary_context_leaves_a_created_one() {
    let (_machine, _here) = start(Schedule::Lazy);
    let of_primary = alloc(4096);
    let context = created();
    let own = alloc(4096);
    ok!(cuDevicePrimaryCtxReset_v2(CuDevice(0)));
    assert_eq!(cu!(cuMemFree_v2(of_primary)), CuResult::INVALID_VALUE);
    ok!(cuMemFree_v2(own));
    assert_eq!(destroy_context(context), CuResult::SUCCESS);
}

#[test]
fn a_created_context_that_is_not_destroyed_is_a_leak() {
    let (machine, _here) = start(Schedule::Lazy);
    let context = created();
    let kinds = || machine.leaks().iter().map(|leak| leak.kind).collect::<Vec<_>>();
    assert_eq!(kinds(), [LeakKind::Context]);
    assert_eq!(destroy_context(context), CuResult::SUCCESS);
    assert!(kinds().is_empty());
}

#[test]
fn wrong_arguments_are_refused() {
    let (_machine, _here) = start(Schedule::Lazy);
    let (primary, mut context) = (current(), CuContext::NULL);
    let pointer = &raw mut context;
    let refused = |pointer, flags, device, expected| {
        // SAFETY: `pointer` is null or valid for a write.
        assert_eq!(unsafe { create_context(pointer, flags, CuDevice(device)) }, expected);
    };
    refused(std::ptr::null_mut(), 0, 0, CuResult::INVALID_VALUE);
    refused(pointer, 1 << 8, 0, CuResult::INVALID_VALUE);
    refused(pointer, 0, 1, CuResult::INVALID_DEVICE);
    assert_eq!(destroy_context(primary), CuResult::INVALID_CONTEXT, "it is released instead");
    assert_eq!(destroy_context(CuContext::NULL), CuResult::INVALID_CONTEXT);
    assert_eq!(current(), primary);
}
