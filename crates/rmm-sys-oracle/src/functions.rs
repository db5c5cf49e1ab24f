//! Every function of the driver table, compared with the oracle's declaration of the same name.
//!
//! The rows come from `driver_symbols!`, so a function added there is compared here. One that the
//! oracle lacks does not compile; CUDA 13.2 has all of them. So do the rows of `shim_symbols!`, the
//! functions that `rmm-sim-cuda` serves beside the table.

use std::ffi::{c_char, c_float, c_int, c_uchar, c_uint, c_ulonglong, c_void};

use rmm_sys::{
    CuCaptureMode, CuCaptureStatus, CuContext, CuDevice, CuDeviceAttribute, CuDevicePtr, CuEvent,
    CuFunction, CuGraph, CuGraphExec, CuGraphMemAttribute, CuHostFn, CuIpcEventHandle,
    CuIpcMemHandle, CuMemAccessDesc, CuMemAccessFlags, CuMemAdvise, CuMemAllocationProp,
    CuMemAllocationType, CuMemGranularity, CuMemHandle, CuMemHandleType, CuMemLocation, CuMemPool,
    CuMemPoolAttribute, CuMemPoolProps, CuMemPoolPtrExportData, CuMemRangeAttribute, CuModule,
    CuPointerAttribute, CuResult, CuStream, CuUuid,
};

use rmm_sim_cuda::shims::{CreateParameters, LaunchConfig};

use crate::signature::{Signature, agree, layouts_of};

/// The oracle's declarations, and those of CUDA 12 that CUDA 13 has dropped from its header: the
/// driver still exports the functions.
#[expect(non_snake_case, reason = "the names are CUDA's")]
mod sys {
    use std::ffi::{c_float, c_int, c_uint};

    pub(super) use cudarc::driver::sys::*;

    pub(super) unsafe fn cuCtxCreate_v2(_: *mut CUcontext, _: c_uint, _: CUdevice) -> CUresult {
        CUresult::CUDA_ERROR_NOT_SUPPORTED
    }

    pub(super) unsafe fn cuCtxCreate_v3(
        _: *mut CUcontext,
        _: *mut CUexecAffinityParam,
        _: c_int,
        _: c_uint,
        _: CUdevice,
    ) -> CUresult {
        CUresult::CUDA_ERROR_NOT_SUPPORTED
    }

    pub(super) unsafe fn cuEventElapsedTime(_: *mut c_float, _: CUevent, _: CUevent) -> CUresult {
        CUresult::CUDA_ERROR_NOT_SUPPORTED
    }
}

/// An argument's type, left to the compiler to find.
macro_rules! inferred {
    ($argument:ident) => {
        _
    };
}

macro_rules! compare {
    ($($kind:ident $since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        const _: () = {
            type Ours = unsafe extern "C" fn($($type),*) -> CuResult;
            // A different number of arguments is already refused by this cast.
            let theirs = layouts_of(sys::$name as unsafe fn($(inferred!($argument)),*) -> _);
            assert!(agree(<Ours as Signature>::LAYOUTS, theirs), stringify!($name));
        };
    )*};
}

rmm_sys::driver_symbols!(compare);

macro_rules! compare_shims {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        const _: () = {
            type Ours = unsafe extern "C" fn($($type),*) -> CuResult;
            let theirs = layouts_of(sys::$name as unsafe fn($(inferred!($argument)),*) -> _);
            assert!(agree(<Ours as Signature>::LAYOUTS, theirs), stringify!($name));
        };
    )*};
}

rmm_sim_cuda::shim_symbols!(compare_shims);

const _: () = {
    use std::mem::{offset_of, size_of};

    type Theirs = sys::CUlaunchConfig;
    assert!(size_of::<LaunchConfig>() == size_of::<Theirs>());
    assert!(offset_of!(LaunchConfig, grid) == offset_of!(Theirs, gridDimX));
    assert!(offset_of!(LaunchConfig, block) == offset_of!(Theirs, blockDimX));
    assert!(offset_of!(LaunchConfig, shared_bytes) == offset_of!(Theirs, sharedMemBytes));
    assert!(offset_of!(LaunchConfig, stream) == offset_of!(Theirs, hStream));
    assert!(offset_of!(LaunchConfig, attributes) == offset_of!(Theirs, attrs));
    assert!(offset_of!(LaunchConfig, attribute_count) == offset_of!(Theirs, numAttrs));
};

const _: () = {
    use std::mem::{offset_of, size_of};

    type Theirs = sys::CUctxCreateParams;
    assert!(size_of::<CreateParameters>() == size_of::<Theirs>());
    assert!(offset_of!(CreateParameters, affinity) == offset_of!(Theirs, execAffinityParams));
    assert!(offset_of!(CreateParameters, affinities) == offset_of!(Theirs, numExecAffinityParams));
    assert!(offset_of!(CreateParameters, graphics) == offset_of!(Theirs, cigParams));
};
