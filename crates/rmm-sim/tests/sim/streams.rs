//! Handles of streams and events that are reused, and what host functions and kernels may do. The
//! probes of the conformance suite state the order of streams.

use std::ffi::c_void;

use rmm_sim::{Schedule, ViolationKind};
use rmm_sys::{CuDevicePtr, CuResult, CuStream};

use crate::common::{alloc, event, peek, start, stream};

fn id(stream: CuStream) -> u64 {
    let mut id = 0;
    ok!(cuStreamGetId(stream, &raw mut id));
    id
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
fn host_functions_cannot_call_the_driver() {
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
