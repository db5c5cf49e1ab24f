//! Captures: what is reported of them, and what differs from a driver. The probes of the
//! conformance suite state which calls invalidate a capture, and with which codes.

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

#[test]
fn calls_that_invalidate_a_capture_are_reported() {
    let (machine, _entered) = start(Schedule::Lazy);
    let captured = stream();
    let allocate = || cu!(cuMemAlloc_v2(&mut rmm_sys::CuDevicePtr(0), 64));
    assert_eq!(during(RELAXED, captured, allocate), (CuResult::SUCCESS, true));
    let on_another = during(THREAD_LOCAL, captured, || elsewhere(&machine, allocate));
    assert_eq!(on_another, (CuResult::SUCCESS, true));
    machine.assert_no_violations();
    let unsupported = (CuResult::STREAM_CAPTURE_UNSUPPORTED, false);
    assert_eq!(during(GLOBAL, captured, allocate), unsupported);
    assert_eq!(during(GLOBAL, captured, || elsewhere(&machine, allocate)), unsupported);
    assert_eq!(during(RELAXED, captured, || cu!(cuCtxSynchronize())), unsupported);
    let kinds: Vec<_> = machine.violations().iter().map(|violation| violation.kind).collect();
    assert_eq!(kinds, [ViolationKind::CaptureUnsafe; 3]);
    let first = &machine.violations()[0];
    assert!(first.detail.starts_with("cuMemAlloc_v2 invalidated the capture"), "{first}");
    assert!(first.detail.contains("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"), "{first}");
}

#[test]
fn only_repeatable_kernels_are_captured() {
    let (machine, _entered) = start(Schedule::Eager);
    let captured = stream();
    let runs = Arc::new(AtomicU32::new(0));
    begin(captured, GLOBAL);
    let counter = Arc::clone(&runs);
    let count = Kernel::repeatable("count", move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    machine.launch(captured, count).expect("it is repeatable");
    let once = machine.launch(captured, Kernel::new("once", |_| ()));
    assert_eq!(once, Err(CuResult::NOT_SUPPORTED));
    let graph = end(captured).expect("nothing spoilt it");
    let executable = instantiate(graph);
    ok!(cuGraphDestroy(graph));
    for launches in 0..3 {
        assert_eq!(runs.load(Ordering::Relaxed), launches);
        ok!(cuGraphLaunch(executable, captured));
    }
}

#[test]
fn an_executable_graph_that_is_not_destroyed_is_a_leak() {
    let (machine, _entered) = start(Schedule::Eager);
    let captured = stream();
    begin(captured, GLOBAL);
    let graph = end(captured).expect("nothing spoilt it");
    let executable = instantiate(graph);
    ok!(cuGraphDestroy(graph));
    let is_graph = |leak: &rmm_sim::Leak| leak.kind == rmm_sim::LeakKind::Graph;
    assert_eq!(machine.leaks().iter().filter(|leak| is_graph(leak)).count(), 1);
    ok!(cuGraphExecDestroy(executable));
    assert!(!machine.leaks().iter().any(is_graph));
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
