//! Copies and fills: when they run, in which order, and the memory that they may access.

use rmm_sim::{Schedule, ViolationKind};
use rmm_sys::{CuDevicePtr, CuResult, CuStream};

use crate::common::{alloc, alloc_async, peek, start, stream};

#[test]
fn work_runs_late_and_in_order() {
    let (machine, _here) = start(Schedule::Lazy);
    let (stream, memory) = (stream(), alloc(16));
    for value in 1..=3 {
        ok!(cuMemsetD8Async(memory, value, 16, stream));
    }
    assert_eq!(peek(&machine, memory), 0, "nothing forced it");
    for expected in 1..=3 {
        assert_eq!(cu!(cuStreamQuery(stream)), CuResult::NOT_READY);
        assert_eq!(peek(&machine, memory), expected, "a query runs one item");
    }
    ok!(cuStreamQuery(stream));
    ok!(cuMemsetD8Async(memory, 4, 16, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(peek(&machine, memory), 4);
}

#[test]
fn eager_work_runs_immediately() {
    let (machine, _here) = start(Schedule::Eager);
    let memory = alloc(16);
    ok!(cuMemsetD8Async(memory, 9, 16, stream()));
    assert_eq!(peek(&machine, memory), 9);
}

#[test]
fn ranges_outside_an_allocation_are_refused() {
    let (machine, _here) = start(Schedule::Eager);
    let (a, b) = (alloc(512), alloc(512));
    let mut bytes = [0_u8; 600];
    let host = bytes.as_mut_ptr().cast();
    assert_eq!(b.0 - a.0, 512, "they are neighbours");
    for code in [
        cu!(cuMemsetD8_v2(a, 0, 513)),
        cu!(cuMemcpyHtoD_v2(a, host, 513)),
        cu!(cuMemcpyDtoH_v2(host, CuDevicePtr(a.0 + 1), 512)),
        cu!(cuMemcpyDtoDAsync_v2(CuDevicePtr(a.0 - 1), b, 1, CuStream::NULL)),
        cu!(cuMemcpyHtoD_v2(CuDevicePtr(host.addr() as u64), host, 1)),
        cu!(cuMemcpyDtoH_v2(host, CuDevicePtr::NULL, 1)),
        cu!(cuMemcpyHtoD_v2(a, std::ptr::null(), 1)),
        cu!(cuMemcpyHtoD_v2(
            a,
            std::ptr::with_exposed_provenance(usize::try_from(b.0).unwrap()),
            1
        )),
        cu!(cuMemsetD32_v2(CuDevicePtr(a.0 + 2), 0, 1)),
        cu!(cuMemsetD32_v2(a, 0, usize::MAX)),
    ] {
        assert_eq!(code, CuResult::INVALID_VALUE);
    }
    ok!(cuMemsetD8_v2(a, 0, 0));
    let report: Vec<String> = machine.violations().iter().map(ToString::to_string).collect();
    assert_eq!(
        report,
        [
            "out of bounds: 513 bytes at d0+0x0: passed to a fill",
            "out of bounds: 513 bytes at d0+0x0: passed to a copy",
            "out of bounds: 512 bytes at d0+0x1: passed to a copy",
        ],
        "what is not memory at all is only refused"
    );
}

#[test]
fn use_after_a_stream_ordered_free_is_reported() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, b, memory) = (stream(), stream(), alloc_async(100, CuStream::NULL));
    ok!(cuMemsetD8Async(memory, 1, 100, a)); // before the free, but in a stream that nothing orders before it
    ok!(cuMemFreeAsync(memory, b));
    assert_eq!(cu!(cuMemsetD8Async(memory, 1, 100, b)), CuResult::INVALID_VALUE, "after the free");
    ok!(cuStreamSynchronize(b));
    let kinds = || machine.violations().iter().map(|violation| violation.kind).collect::<Vec<_>>();
    let at_once = [
        ViolationKind::UseBeforeAllocation, // the allocation was in the order of the default stream
        ViolationKind::FreedInUse,
        ViolationKind::UseAfterFree,
    ];
    assert_eq!(kinds(), at_once);
    ok!(cuStreamSynchronize(a));
    assert_eq!(
        kinds()[3..],
        [ViolationKind::UseAfterFree],
        "and it did come to memory that was gone"
    );
}

#[test]
fn work_before_a_free_on_the_same_stream_is_allowed() {
    let (machine, _here) = start(Schedule::Lazy);
    let stream = stream();
    let memory = alloc_async(100, stream);
    ok!(cuMemsetD8Async(memory, 1, 100, stream));
    ok!(cuMemFreeAsync(memory, stream));
    let again = alloc_async(100, stream);
    assert_eq!(again, memory);
    ok!(cuMemsetD8Async(again, 2, 100, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(peek(&machine, again), 2);
    machine.assert_no_violations();
}
