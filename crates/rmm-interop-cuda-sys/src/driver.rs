//! Handles and structures of `cuda-driver-sys`.

use cuda_driver_sys as theirs;
use rmm_sys::{
    CuContext, CuDevice, CuDevicePtr, CuEvent, CuFunction, CuHostFn, CuIpcEventHandle,
    CuIpcMemHandle, CuMemHandle, CuModule, CuStream, CuUuid,
};

crate::conversions! {
    DriverSys of "cuda-driver-sys": to_driver_sys, from_driver_sys;
    handles:
        CuContext = theirs::CUcontext,
        CuStream = theirs::CUstream,
        CuEvent = theirs::CUevent,
        CuModule = theirs::CUmodule,
        CuFunction = theirs::CUfunction;
    numbers:
        CuDevice = theirs::CUdevice,
        CuDevicePtr = theirs::CUdeviceptr,
        CuMemHandle = theirs::CUmemGenericAllocationHandle;
    uuid: theirs::CUuuid, ipc_memory: theirs::CUipcMemHandle, ipc_event: theirs::CUipcEventHandle
}

// One type under two names: no conversion is needed.
const _: fn(CuHostFn) -> theirs::CUhostFn = |function| function;
