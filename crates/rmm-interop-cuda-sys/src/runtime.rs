//! Handles and structures of `cuda-runtime-sys`.
//!
//! A stream or event of the runtime is the driver's own object. A context has no runtime type, and
//! the runtime has no types for a device's number (`int`) and address (`void *`).

use std::ffi::c_void;

use cuda_runtime_sys as theirs;
use rmm_sys::{CuDevice, CuDevicePtr, CuEvent, CuIpcEventHandle, CuIpcMemHandle, CuStream, CuUuid};

use crate::assert_same_layout;

// The runtime numbers devices as the driver does, as long as both see the same
// `CUDA_VISIBLE_DEVICES`.
crate::conversions! {
    RuntimeSys of "cuda-runtime-sys": to_runtime_sys, from_runtime_sys;
    handles: CuStream = theirs::cudaStream_t, CuEvent = theirs::cudaEvent_t;
    numbers: CuDevice = std::ffi::c_int;
    uuid: theirs::cudaUUID_t, ipc_memory: theirs::cudaIpcMemHandle_t,
    ipc_event: theirs::cudaIpcEventHandle_t
}

assert_same_layout!(CuDevicePtr, *mut c_void);

/// The runtime writes device addresses as pointers, which the host may not read through.
impl RuntimeSys for CuDevicePtr {
    type Foreign = *mut c_void;

    fn to_runtime_sys(self) -> Self::Foreign {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a pointer is as wide as an address, asserted above"
        )]
        let address = self.0 as usize;
        std::ptr::with_exposed_provenance_mut(address)
    }

    fn from_runtime_sys(foreign: Self::Foreign) -> Self {
        // Exposed, because `to_runtime_sys` may make a pointer of it again: the host may access
        // managed and pinned memory.
        Self(foreign.expose_provenance() as u64)
    }
}
