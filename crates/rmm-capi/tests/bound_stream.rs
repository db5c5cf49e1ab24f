//! The stream that ONNX Runtime's sessions compute on, which is bound for the whole process: so
//! this is a program of its own.

use std::ffi::c_void;
use std::ptr;

use rmm_core::sys::{CuResult, CuStream, Driver};
use rmm_core::{Device, DevicePtr, StreamRef, copy};
use rmm_rs::frameworks::ort::{rmm_rs_ort_allocate, rmm_rs_ort_bind_stream, rmm_rs_ort_deallocate};
use rmm_rs::handle::status::RMM_RS_OK;

/// Calls functions of C.
macro_rules! c {
    ($($call:tt)*) => {{
        // SAFETY: the test passes what the crate's contract asks for: streams that exist, and
        // memory that it did not free yet.
        unsafe { $($call)* }
    }};
}

const BYTES: usize = 1 << 20;

/// A stream of the program's, whose handle was that of the last one if it was destroyed.
fn create(driver: &Driver) -> CuStream {
    let mut stream = CuStream::NULL;
    let code = c!(driver.cuStreamCreateWithPriority(&raw mut stream, 1, 0));
    assert_eq!(code, CuResult::SUCCESS);
    stream
}

/// Enqueues work that uses a block.
fn fill(stream: CuStream, block: *mut c_void) {
    let place = DevicePtr::new(block.addr() as u64);
    let filled = c!(StreamRef::with_raw(stream, |stream| copy::fill(place, 7, BYTES, stream)));
    filled.and_then(|filled| filled).expect("a fill");
}

#[test]
fn a_bound_stream_that_comes_back_is_another_stream() {
    let machine = rmm_sim::enter();
    let _current = Device::new(0).and_then(Device::make_current).expect("there is one");
    let driver = Driver::get().expect("the software driver");
    let mut former = CuStream::NULL;
    let mut came_back = 0;
    for _ in 0..8 {
        let stream = create(driver);
        came_back += usize::from(stream == former);
        former = stream;
        assert_eq!(c!(rmm_rs_ort_bind_stream(stream.as_raw())), RMM_RS_OK);
        let block = c!(rmm_rs_ort_allocate(BYTES));
        assert_ne!(block, ptr::null_mut());
        fill(stream, block);
        c!(rmm_rs_ort_deallocate(block));
        // Its work goes on, and its sessions are gone.
        assert_eq!(c!(driver.cuStreamDestroy_v2(stream)), CuResult::SUCCESS);
    }
    assert_eq!(came_back, 7, "the device reuses the handle at once");
    machine.assert_no_violations();
}
