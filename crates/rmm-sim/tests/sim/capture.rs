//! Stream capture. The codes, and whether a call invalidates the capture, are those observed on an
//! H200 with a driver of CUDA 13.0.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rmm_sim::{Kernel, Machine, Schedule, ViolationKind};
use rmm_sys::{CuCaptureMode, CuCaptureStatus, CuGraph, CuGraphExec, CuResult, CuStream};

use crate::common::*;

const GLOBAL: CuCaptureMode = CuCaptureMode::GLOBAL;
const THREAD_LOCAL: CuCaptureMode = CuCaptureMode::THREAD_LOCAL;
const RELAXED: CuCaptureMode = CuCaptureMode::RELAXED;

fn begin(stream: CuStream, mode: CuCaptureMode) {
    ok!(cuStreamBeginCapture_v2(stream, mode));
}

fn end(stream: CuStream) -> Result<CuGraph, CuResult> {
    let mut graph = CuGraph::NULL;
    let code = cu!(cuStreamEndCapture(stream, &raw mut graph));
    assert_eq!(code.is_success(), !graph.is_null());
    code.result().map(|()| graph)
}

fn instantiate(graph: CuGraph) -> CuGraphExec {
    let mut executable = CuGraphExec::NULL;
    ok!(cuGraphInstantiateWithFlags(&raw mut executable, graph, 0));
    executable
}

fn status(stream: CuStream) -> CuCaptureStatus {
    let mut status = CuCaptureStatus::NONE;
    ok!(cuStreamIsCapturing(stream, &raw mut status));
    status
}

/// Makes a call while a stream is captured; returns its code, and whether the capture is still
/// valid.
fn during(
    mode: CuCaptureMode,
    captured: CuStream,
    call: impl FnOnce() -> CuResult,
) -> (CuResult, bool) {
    begin(captured, mode);
    let code = call();
    let is_active = status(captured) == CuCaptureStatus::ACTIVE;
    let ended = end(captured);
    assert_eq!(ended.err(), (!is_active).then_some(CuResult::STREAM_CAPTURE_INVALIDATED));
    if let Ok(graph) = ended {
        ok!(cuGraphDestroy(graph));
    }
    assert_eq!(status(captured), CuCaptureStatus::NONE);
    (code, is_active)
}

/// Makes the call on another thread, with the machine's context current.
fn elsewhere(machine: &Machine, call: impl FnOnce() -> CuResult + Send) -> CuResult {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (_, _entered) = enter(machine.clone());
            call()
        });
        thread.join().expect("no panic")
    })
}

const FINE: (CuResult, bool) = (CuResult::SUCCESS, true);
const UNSUPPORTED: (CuResult, bool) = (CuResult::STREAM_CAPTURE_UNSUPPORTED, false);

#[test]
fn captured_work_runs_at_each_launch_and_never_before() {
    let (machine, _entered) = start(Schedule::Eager);
    let (captured, launched) = (stream(), stream());
    let memory = alloc(64);
    let runs = Arc::new(AtomicU32::new(0));
    ok!(cuMemsetD8Async(memory, 1, 64, captured));
    begin(captured, GLOBAL);
    assert_eq!(status(captured), CuCaptureStatus::ACTIVE);
    ok!(cuMemsetD8Async(memory, 2, 64, captured));
    let counter = Arc::clone(&runs);
    let count = Kernel::repeatable("count", move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    machine.launch(captured, count.reads(memory, 64)).expect("it is repeatable");
    let once = machine.launch(captured, Kernel::new("once", |_| ()));
    assert_eq!(once, Err(CuResult::NOT_SUPPORTED));
    let graph = end(captured).expect("nothing spoilt it");
    machine.run_all();
    assert_eq!((peek(&machine, memory), runs.load(Ordering::Relaxed)), (1, 0));

    let executable = instantiate(graph);
    ok!(cuGraphDestroy(graph));
    ok!(cuCtxSynchronize());
    ok!(cuGraphLaunch(executable, launched));
    assert_eq!((peek(&machine, memory), runs.load(Ordering::Relaxed)), (2, 1));
    ok!(cuGraphLaunch(executable, launched));
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    let is_graph = |leak: &rmm_sim::Leak| leak.kind == rmm_sim::LeakKind::Graph;
    assert_eq!(machine.leaks().iter().filter(|leak| is_graph(leak)).count(), 1);
    ok!(cuGraphExecDestroy(executable));
    assert!(!machine.leaks().iter().any(is_graph));
    machine.assert_no_violations();
}

#[test]
fn potentially_unsafe_calls_are_forbidden_by_mode_and_thread() {
    let (machine, _entered) = start(Schedule::Lazy);
    let other = stream();
    let (recorded, fresh) = (event(), event());
    ok!(cuEventRecord(recorded, other));
    ok!(cuStreamSynchronize(other));
    let (pool, mut value) = (default_pool(), 0_u64);
    let spare: Vec<_> = (0..8).map(|_| alloc(64)).collect();
    let spare_async: Vec<_> = (0..8).map(|_| alloc_async(64, other)).collect();
    ok!(cuStreamSynchronize(other));
    let (value, used) = (&raw mut value as usize, AtomicU32::new(0));
    let next = || used.fetch_add(1, Ordering::Relaxed) as usize;
    let calls: &[(&str, &(dyn Fn() -> CuResult + Sync))] = &[
        ("cuMemAlloc_v2", &|| cu!(cuMemAlloc_v2(&mut rmm_sys::CuDevicePtr(0), 64))),
        ("cuMemFree_v2", &|| cu!(cuMemFree_v2(spare[next() % 8]))),
        ("cuMemAllocManaged", &|| cu!(cuMemAllocManaged(&mut rmm_sys::CuDevicePtr(0), 64, 1))),
        ("cuMemHostAlloc", &|| cu!(cuMemHostAlloc(&mut std::ptr::null_mut(), 64, 0))),
        ("cuEventQuery", &|| cu!(cuEventQuery(recorded))),
        ("cuEventQuery of a fresh one", &|| cu!(cuEventQuery(fresh))),
        ("cuEventSynchronize", &|| cu!(cuEventSynchronize(recorded))),
        ("cuStreamQuery", &|| cu!(cuStreamQuery(other))),
        ("cuStreamSynchronize", &|| cu!(cuStreamSynchronize(other))),
        ("cuStreamSynchronize of the legacy one", &|| cu!(cuStreamSynchronize(CuStream::LEGACY))),
        ("cuMemAllocAsync", &|| try_alloc_async(64, other).err().unwrap_or(CuResult::SUCCESS)),
        ("cuMemFreeAsync", &|| cu!(cuMemFreeAsync(spare_async[next() % 8], other))),
        ("cuMemPoolTrimTo", &|| cu!(cuMemPoolTrimTo(pool, 0))),
        ("cuMemPoolGetAttribute", &|| {
            cu!(cuMemPoolGetAttribute(
                pool,
                rmm_sys::CuMemPoolAttribute::RELEASE_THRESHOLD,
                value as *mut std::ffi::c_void
            ))
        }),
    ];
    let captured = stream();
    for (name, call) in calls {
        used.store(0, Ordering::Relaxed);
        assert_eq!(during(GLOBAL, captured, call), UNSUPPORTED, "{name}");
        assert_eq!(during(THREAD_LOCAL, captured, call), UNSUPPORTED, "{name}");
        let on_another = |mode| during(mode, captured, || elsewhere(&machine, call));
        assert_eq!(on_another(GLOBAL), UNSUPPORTED, "{name}");
        let reports = machine.violations().len();
        assert_eq!(on_another(THREAD_LOCAL), FINE, "{name}");
        assert_eq!(during(RELAXED, captured, call), FINE, "{name}");
        assert_eq!(machine.violations().len(), reports, "{name}");
        // In relaxed mode, a thread may make any call, whichever thread captures.
        let mut mode = RELAXED;
        ok!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
        assert_eq!(mode, GLOBAL);
        assert_eq!(during(GLOBAL, captured, call), FINE, "{name}");
        ok!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
        assert_eq!(mode, RELAXED);
    }
    let first = &machine.violations()[0];
    assert_eq!(first.kind, ViolationKind::CaptureUnsafe);
    assert!(first.detail.starts_with("cuMemAlloc_v2 invalidated the capture"), "{first}");
    assert!(first.detail.contains("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"), "{first}");
}

#[test]
fn calls_that_only_enqueue_or_create_are_allowed_in_captures() {
    let (machine, _entered) = start(Schedule::Lazy);
    let (captured, other, memory) = (stream(), stream(), alloc(64));
    let calls: &[&dyn Fn() -> CuResult] = &[
        &|| cu!(cuMemsetD8Async(memory, 1, 64, other)),
        &|| cu!(cuEventRecord(event(), other)),
        &|| cu!(cuEventDestroy_v2(event())),
        &|| cu!(cuStreamDestroy_v2(stream())),
        &|| cu!(cuMemGetInfo_v2(&mut 0, &mut 0)),
        &|| cu!(cuStreamWaitEvent(captured, event(), 0)),
        // The legacy stream does not depend on a non-blocking one.
        &|| cu!(cuMemsetD8_v2(memory, 1, 64)),
        &|| cu!(cuMemcpyDtoH_v2([0_u8; 4].as_mut_ptr().cast(), memory, 4)),
    ];
    for (index, call) in calls.iter().enumerate() {
        assert_eq!(during(GLOBAL, captured, call), FINE, "call {index}");
        ok!(cuCtxSynchronize());
    }
    machine.assert_no_violations();
}

#[test]
fn conflicting_calls_invalidate_a_capture_in_every_mode() {
    let (machine, _entered) = start(Schedule::Lazy);
    let (captured, marked, outside) = (stream(), event(), event());
    ok!(cuEventRecord(outside, stream()));
    let mark = || ok!(cuEventRecord(marked, captured));
    let unsupported = CuResult::STREAM_CAPTURE_UNSUPPORTED;
    let calls: &[(CuResult, &dyn Fn() -> CuResult)] = &[
        (unsupported, &|| cu!(cuCtxSynchronize())),
        (unsupported, &|| cu!(cuStreamQuery(captured))),
        (unsupported, &|| cu!(cuStreamSynchronize(captured))),
        (unsupported, &|| cu!(cuCtxRecordEvent(context(), event()))),
        (unsupported, &|| cu!(cuCtxWaitEvent(context(), outside))),
        (CuResult::CAPTURED_EVENT, &|| (mark(), cu!(cuEventQuery(marked))).1),
        (CuResult::CAPTURED_EVENT, &|| (mark(), cu!(cuEventSynchronize(marked))).1),
        (CuResult::STREAM_CAPTURE_ISOLATION, &|| cu!(cuStreamWaitEvent(captured, outside, 0))),
        (CuResult::STREAM_CAPTURE_IMPLICIT, &|| {
            (mark(), cu!(cuStreamWaitEvent(CuStream::LEGACY, marked, 0))).1
        }),
    ];
    for (index, &(code, call)) in calls.iter().enumerate() {
        for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
            assert_eq!(during(mode, captured, call), (code, false), "call {index}, {mode:?}");
        }
    }
    assert!(machine.violations().iter().all(|one| one.kind == ViolationKind::CaptureUnsafe));
    assert_eq!(machine.violations().len(), 3 * calls.len());
}

#[test]
fn an_invalid_capture_accepts_no_more_work() {
    let (_machine, _entered) = start(Schedule::Lazy);
    let (captured, memory, mark) = (stream(), alloc(64), event());
    begin(captured, RELAXED);
    assert_eq!(cu!(cuCtxSynchronize()), CuResult::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(status(captured), CuCaptureStatus::INVALIDATED);
    let invalidated = CuResult::STREAM_CAPTURE_INVALIDATED;
    assert_eq!(cu!(cuMemsetD8Async(memory, 1, 64, captured)), invalidated);
    assert_eq!(cu!(cuEventRecord(mark, captured)), invalidated);
    assert_eq!(end(captured), Err(invalidated));
    ok!(cuMemsetD8Async(memory, 1, 64, captured));
    ok!(cuStreamSynchronize(captured));
}

#[test]
fn the_legacy_stream_is_refused_while_a_blocking_one_is_captured() {
    let (_machine, _entered) = start(Schedule::Lazy);
    let (captured, other, memory) = (blocking_stream(), blocking_stream(), alloc(64));
    let implicit = (CuResult::STREAM_CAPTURE_IMPLICIT, false);
    let calls: &[&dyn Fn() -> CuResult] = &[
        &|| cu!(cuMemsetD8Async(memory, 1, 64, CuStream::LEGACY)),
        &|| cu!(cuMemsetD8_v2(memory, 1, 64)),
        &|| cu!(cuMemcpyDtoH_v2([0_u8; 4].as_mut_ptr().cast(), memory, 4)),
        &|| cu!(cuEventRecord(event(), CuStream::LEGACY)),
        &|| cu!(cuStreamQuery(CuStream::LEGACY)),
        &|| cu!(cuStreamSynchronize(CuStream::LEGACY)),
        &|| cu!(cuStreamBeginCapture_v2(CuStream::LEGACY, RELAXED)),
    ];
    for (index, call) in calls.iter().enumerate() {
        assert_eq!(during(RELAXED, captured, call), implicit, "call {index}");
    }
    // Queries are allowed, and so is work on other blocking streams.
    let ask = || cu!(cuStreamIsCapturing(CuStream::LEGACY, &mut CuCaptureStatus(0)));
    assert_eq!(during(GLOBAL, captured, ask), (CuResult::STREAM_CAPTURE_IMPLICIT, true));
    assert_eq!(during(GLOBAL, captured, || cu!(cuMemsetD8Async(memory, 1, 64, other))), FINE);
    let begin_legacy = || cu!(cuStreamBeginCapture_v2(CuStream::LEGACY, GLOBAL));
    let refused = (CuResult::STREAM_CAPTURE_UNSUPPORTED, true);
    assert_eq!(during(GLOBAL, stream(), begin_legacy), refused);
}

#[test]
fn a_stream_that_waits_for_a_captured_event_must_be_joined() {
    let (machine, _entered) = start(Schedule::Lazy);
    let (origin, branch, memory) = (stream(), stream(), alloc(128));
    let (fork, join) = (event(), event());
    let draw_in = || {
        begin(origin, GLOBAL);
        ok!(cuMemsetD8Async(memory, 1, 64, origin));
        ok!(cuEventRecord(fork, origin));
        ok!(cuStreamWaitEvent(branch, fork, 0));
        assert_eq!(status(branch), CuCaptureStatus::ACTIVE);
        ok!(cuMemsetD8Async(memory, 2, 128, branch));
        ok!(cuEventRecord(join, branch));
    };
    draw_in();
    ok!(cuStreamWaitEvent(origin, join, 0));
    let graph = end(origin).expect("the branch was joined");
    assert_eq!((status(origin), status(branch)), (CuCaptureStatus::NONE, CuCaptureStatus::NONE));
    // Events of an ended capture are invalid.
    assert_eq!(cu!(cuEventQuery(join)), CuResult::INVALID_VALUE);
    assert_eq!(cu!(cuStreamWaitEvent(origin, join, 0)), CuResult::INVALID_VALUE);
    let executable = instantiate(graph);
    ok!(cuGraphLaunch(executable, origin));
    ok!(cuStreamSynchronize(origin));
    assert_eq!(peek(&machine, memory), 2);
    ok!(cuEventRecord(join, origin));
    ok!(cuEventSynchronize(join));

    draw_in();
    assert_eq!(end(origin), Err(CuResult::STREAM_CAPTURE_UNJOINED));
    assert_eq!(status(branch), CuCaptureStatus::NONE);
    draw_in();
    assert_eq!(end(branch), Err(CuResult::STREAM_CAPTURE_UNMATCHED));
    assert_eq!(end(origin), Err(CuResult::STREAM_CAPTURE_INVALIDATED));
    // Captures cannot be merged.
    begin(origin, RELAXED);
    begin(branch, RELAXED);
    ok!(cuEventRecord(fork, origin));
    assert_eq!(cu!(cuStreamWaitEvent(branch, fork, 0)), CuResult::STREAM_CAPTURE_MERGE);
    for stream in [origin, branch] {
        assert_eq!(end(stream), Err(CuResult::STREAM_CAPTURE_INVALIDATED));
    }
}

#[test]
fn a_capture_begins_once_and_is_ended_by_its_thread() {
    let (machine, _entered) = start(Schedule::Lazy);
    let captured = stream();
    assert_eq!(end(captured), Err(CuResult::ILLEGAL_STATE));
    let again = || cu!(cuStreamBeginCapture_v2(captured, RELAXED));
    assert_eq!(during(GLOBAL, captured, again), (CuResult::ILLEGAL_STATE, true));
    let finish = || end(captured).err().unwrap_or(CuResult::SUCCESS);
    for (mode, code) in [
        (GLOBAL, CuResult::STREAM_CAPTURE_WRONG_THREAD),
        (THREAD_LOCAL, CuResult::STREAM_CAPTURE_WRONG_THREAD),
        (RELAXED, CuResult::SUCCESS),
    ] {
        begin(captured, mode);
        assert_eq!(elsewhere(&machine, finish), code);
        assert_eq!(status(captured), CuCaptureStatus::NONE);
    }
    // Destroying a stream ends its capture, which no longer forbids calls.
    begin(captured, GLOBAL);
    ok!(cuStreamDestroy_v2(captured));
    ok!(cuCtxSynchronize());
    alloc(64);
}

#[test]
fn memory_of_driver_pools_has_no_graph_nodes() {
    let (_machine, _entered) = start(Schedule::Lazy);
    let captured = stream();
    let memory = alloc_async(64, captured);
    let allocate = || try_alloc_async(64, captured).err().unwrap_or(CuResult::SUCCESS);
    assert_eq!(during(GLOBAL, captured, allocate), (CuResult::NOT_SUPPORTED, true));
    let free = || cu!(cuMemFreeAsync(memory, captured));
    assert_eq!(during(GLOBAL, captured, free), (CuResult::INVALID_VALUE, true));
}

#[test]
fn each_launch_of_a_graph_is_checked_as_its_work() {
    let (machine, _entered) = start(Schedule::Lazy);
    let (captured, first, second, memory) = (stream(), stream(), stream(), alloc(64));
    begin(captured, GLOBAL);
    ok!(cuMemsetD8Async(memory, 1, 64, captured));
    let executable = instantiate(end(captured).expect("nothing spoilt it"));
    ok!(cuGraphLaunch(executable, first));
    ok!(cuGraphLaunch(executable, second)); // after the first launch, as the driver has it
    machine.assert_no_violations();
    ok!(cuMemsetD8Async(memory, 2, 64, first));
    assert_eq!(machine.violations()[0].kind, ViolationKind::Race);
    ok!(cuMemFree_v2(memory));
    ok!(cuGraphLaunch(executable, second));
    machine.run_all();
    let last = machine.violations().pop().expect("the launch was reported");
    assert_eq!(last.kind, ViolationKind::UseAfterFree);
}

#[test]
fn captured_copies_access_host_memory_at_each_launch() {
    let (machine, _entered) = start(Schedule::Lazy);
    let (captured, memory) = (stream(), alloc(4));
    let (mut source, mut target) = ([1_u8; 4], [0_u8; 4]);
    let (from, to) = (source.as_mut_ptr(), target.as_mut_ptr());
    begin(captured, GLOBAL);
    ok!(cuMemcpyHtoDAsync_v2(memory, from.cast(), 4, captured));
    ok!(cuMemcpyDtoHAsync_v2(to.cast(), memory, 4, captured));
    let executable = instantiate(end(captured).expect("nothing spoilt it"));
    for value in [2, 3] {
        // SAFETY: the array lives, and no launch is under way.
        unsafe { from.write_bytes(value, 4) };
        ok!(cuGraphLaunch(executable, captured));
        ok!(cuStreamSynchronize(captured));
        // SAFETY: as above.
        assert_eq!(unsafe { to.read() }, value);
    }
    machine.assert_no_violations();
}

#[test]
fn a_captured_copy_to_the_host_waits_for_nothing() {
    let (machine, _entered) = start(Schedule::Lazy);
    let captured = stream();
    let (mut memory, mut target) = (rmm_sys::CuDevicePtr::NULL, [0_u8; 4]);
    ok!(cuMemAllocManaged(&raw mut memory, 4, 1));
    ok!(cuMemsetD8Async(memory, 1, 4, captured));
    begin(captured, GLOBAL);
    ok!(cuMemcpyDtoHAsync_v2(target.as_mut_ptr().cast(), memory, 4, captured));
    end(captured).expect("nothing spoilt it");
    machine.host_reads(memory, 4).expect("it is allocated");
    assert_eq!(
        machine.violations()[0].kind,
        ViolationKind::Race,
        "the host did not wait for the fill"
    );
}

#[test]
fn instantiation_takes_the_flags_that_change_no_order() {
    let (_machine, _entered) = start(Schedule::Lazy);
    let stream = stream();
    ok!(cuStreamBeginCapture_v2(stream, CuCaptureMode::THREAD_LOCAL));
    let mut graph = CuGraph::NULL;
    ok!(cuStreamEndCapture(stream, &raw mut graph));
    let instantiate = |flags| {
        let mut executable = CuGraphExec::NULL;
        cu!(cuGraphInstantiateWithFlags(&raw mut executable, graph, flags))
    };
    // Free on launch, node priorities.
    for flags in [0, 1, 8, 9] {
        assert_eq!(instantiate(flags), CuResult::SUCCESS, "{flags}");
    }
    assert_eq!(instantiate(4), CuResult::NOT_SUPPORTED, "launch by the device");
    for flags in [2, 5, 16] {
        assert_eq!(instantiate(flags), CuResult::INVALID_VALUE, "{flags}");
    }
}
