//! Every function of the driver table, compared with the oracle's declaration of the same name.
//!
//! The rows come from `driver_symbols!`, so a function added there is compared here. One that the
//! oracle lacks does not compile; CUDA 13.2 has all of them.

use std::ffi::{c_char, c_float, c_int, c_uchar, c_uint, c_ulonglong, c_void};

use cudarc::driver::sys;
use rmm_sys::{
    CuCaptureMode, CuCaptureStatus, CuContext, CuDevice, CuDeviceAttribute, CuDevicePtr, CuEvent,
    CuFunction, CuGraph, CuGraphExec, CuGraphMemAttribute, CuHostFn, CuIpcEventHandle,
    CuIpcMemHandle, CuMemAccessDesc, CuMemAccessFlags, CuMemAdvise, CuMemAllocationProp,
    CuMemAllocationType, CuMemGranularity, CuMemHandle, CuMemHandleType, CuMemLocation, CuMemPool,
    CuMemPoolAttribute, CuMemPoolProps, CuMemPoolPtrExportData, CuMemRangeAttribute, CuModule,
    CuPointerAttribute, CuResult, CuStream, CuUuid,
};

use crate::signature::{Signature, agree, layouts_of};

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
