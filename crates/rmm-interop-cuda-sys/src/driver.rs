//! Handles and structures of `cuda-driver-sys`.

use cuda_driver_sys as theirs;
use rmm_sys::{
    CuContext, CuDevice, CuDevicePtr, CuEvent, CuFunction, CuHostFn, CuIpcEventHandle,
    CuIpcMemHandle, CuMemHandle, CuModule, CuStream, CuUuid,
};

use crate::{conversions, to_bytes, to_chars};

/// A value that `cuda-driver-sys` has a type for too.
///
/// Both directions change the type of a handle only; nothing is created, checked or freed.
pub trait DriverSys: Sized {
    /// The type in `cuda-driver-sys`.
    type Foreign;

    /// Converts to the type of `cuda-driver-sys`.
    fn to_driver_sys(self) -> Self::Foreign;

    /// Converts from the type of `cuda-driver-sys`. A handle need not name a live object: the
    /// driver reports an invalid one when it is used.
    fn from_driver_sys(foreign: Self::Foreign) -> Self;
}

conversions! {
    DriverSys:
        to_driver_sys |handle| handle.as_raw().cast(),
        from_driver_sys |foreign| Self::from_raw(foreign.cast());
    CuContext = theirs::CUcontext;
    CuStream = theirs::CUstream;
    CuEvent = theirs::CUevent;
    CuModule = theirs::CUmodule;
    CuFunction = theirs::CUfunction;
}

conversions! {
    DriverSys:
        to_driver_sys |number| number.0,
        from_driver_sys |foreign| Self(foreign);
    CuDevice = theirs::CUdevice;
    CuDevicePtr = theirs::CUdeviceptr;
    CuMemHandle = theirs::CUmemGenericAllocationHandle;
}

conversions! {
    DriverSys:
        to_driver_sys |value| Self::Foreign { bytes: to_chars(value.bytes) },
        from_driver_sys |foreign| Self { bytes: to_bytes(foreign.bytes) };
    CuUuid = theirs::CUuuid;
}

conversions! {
    DriverSys:
        to_driver_sys |value| Self::Foreign { reserved: to_chars(value.reserved) },
        from_driver_sys |foreign| Self { reserved: to_bytes(foreign.reserved) };
    CuIpcMemHandle = theirs::CUipcMemHandle;
    CuIpcEventHandle = theirs::CUipcEventHandle;
}

// One type under two names: no conversion is needed.
const _: fn(CuHostFn) -> theirs::CUhostFn = |function| function;
