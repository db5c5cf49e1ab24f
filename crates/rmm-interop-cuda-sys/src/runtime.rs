//! Handles and structures of `cuda-runtime-sys`.
//!
//! A stream or event of the runtime is the driver's own object. A context has no runtime type, and
//! the runtime has no types for a device's number (`int`) and address (`void *`).

use std::ffi::c_void;

use cuda_runtime_sys as theirs;
use rmm_sys::{CuDevice, CuDevicePtr, CuEvent, CuIpcEventHandle, CuIpcMemHandle, CuStream, CuUuid};

use crate::{assert_same_layout, conversions, to_bytes, to_chars};

/// A value that `cuda-runtime-sys` has a type for too.
///
/// Both directions change the type of a handle only; nothing is created, checked or freed.
pub trait RuntimeSys: Sized {
    /// The type in `cuda-runtime-sys`.
    type Foreign;

    /// Converts to the type of `cuda-runtime-sys`.
    fn to_runtime_sys(self) -> Self::Foreign;

    /// Converts from the type of `cuda-runtime-sys`. A handle need not name a live object: the
    /// driver reports an invalid one when it is used.
    fn from_runtime_sys(foreign: Self::Foreign) -> Self;
}

conversions! {
    RuntimeSys:
        to_runtime_sys |handle| handle.as_raw().cast(),
        from_runtime_sys |foreign| Self::from_raw(foreign.cast());
    CuStream = theirs::cudaStream_t;
    CuEvent = theirs::cudaEvent_t;
}

conversions! {
    RuntimeSys:
        to_runtime_sys |value| Self::Foreign { bytes: to_chars(value.bytes) },
        from_runtime_sys |foreign| Self { bytes: to_bytes(foreign.bytes) };
    CuUuid = theirs::cudaUUID_t;
}

conversions! {
    RuntimeSys:
        to_runtime_sys |value| Self::Foreign { reserved: to_chars(value.reserved) },
        from_runtime_sys |foreign| Self { reserved: to_bytes(foreign.reserved) };
    CuIpcMemHandle = theirs::cudaIpcMemHandle_t;
    CuIpcEventHandle = theirs::cudaIpcEventHandle_t;
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

// The runtime numbers devices as the driver does, as long as both see the same
// `CUDA_VISIBLE_DEVICES`.
conversions! {
    RuntimeSys:
        to_runtime_sys |number| number.0,
        from_runtime_sys |foreign| Self(foreign);
    CuDevice = std::ffi::c_int;
}
