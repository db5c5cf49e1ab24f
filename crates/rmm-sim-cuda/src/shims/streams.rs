//! Streams, events and graphs under their other names.

use std::ffi::{c_uint, c_void};

use rmm_sys::{
    CuDevicePtr, CuEvent, CuGraphExec, CuHostFn, CuPointerAttribute, CuResult, CuStream,
};

/// `CU_POINTER_ATTRIBUTE_IS_MANAGED`.
const IS_MANAGED: CuPointerAttribute = CuPointerAttribute(8);

driver_shims! {
    fn cuStreamCreate(stream: *mut CuStream, flags: c_uint) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuStreamCreateWithPriority(stream, flags, 0) }
    }

    fn cuStreamAttachMemAsync(stream: CuStream, pointer: CuDevicePtr, _bytes: usize, _flags: c_uint) {
        let (mut is_managed, mut flags) = (0_u32, 0);
        // Who may access the memory is not tracked; it has to be managed, and the stream to exist.
        // SAFETY: the attribute is a 32-bit number.
        let code = unsafe {
            rmm_sim::driver().cuPointerGetAttribute(
                (&raw mut is_managed).cast(), IS_MANAGED, pointer,
            )
        };
        if !code.is_success() || is_managed == 0 {
            return CuResult::INVALID_VALUE;
        }
        // SAFETY: `flags` is valid for a write.
        unsafe { rmm_sim::driver().cuStreamGetFlags(stream, &raw mut flags) }
    }

    fn cuLaunchHostFunc_v2(stream: CuStream, function: CuHostFn, data: *mut c_void, _mode: c_uint) {
        // SAFETY: the caller's contract. How the driver waits for the function is all that the mode
        // says.
        unsafe { rmm_sim::driver().cuLaunchHostFunc(stream, function, data) }
    }

    fn cuEventRecordWithFlags(event: CuEvent, stream: CuStream, flags: c_uint) {
        if flags != 0 {
            return CuResult::NOT_SUPPORTED;
        }
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuEventRecord(event, stream) }
    }

    fn cuGraphUpload(executable: CuGraphExec, stream: CuStream) {
        if executable.is_null() {
            return CuResult::INVALID_VALUE;
        }
        let mut flags = 0;
        // There is nothing to upload; the stream has to exist.
        // SAFETY: `flags` is valid for a write.
        unsafe { rmm_sim::driver().cuStreamGetFlags(stream, &raw mut flags) }
    }
}
