//! Handles and structures of `cuda-driver-sys`.

use cuda_driver_sys as theirs;
use rmm_sys::{
    CuContext, CuDevice, CuDevicePtr, CuEvent, CuFunction, CuHostFn, CuIpcEventHandle,
    CuIpcMemHandle, CuMemHandle, CuModule, CuStream, CuUuid,
};

use crate::{assert_same_layout, to_bytes, to_chars};

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

macro_rules! pointers {
    ($($ours:ident = $theirs:ident;)*) => {$(
        assert_same_layout!($ours, theirs::$theirs);

        impl DriverSys for $ours {
            type Foreign = theirs::$theirs;

            fn to_driver_sys(self) -> Self::Foreign {
                self.as_raw().cast()
            }

            fn from_driver_sys(foreign: Self::Foreign) -> Self {
                Self::from_raw(foreign.cast())
            }
        }
    )*};
}

pointers! {
    CuContext = CUcontext;
    CuStream = CUstream;
    CuEvent = CUevent;
    CuModule = CUmodule;
    CuFunction = CUfunction;
}

macro_rules! numbers {
    ($($ours:ident = $theirs:ident;)*) => {$(
        assert_same_layout!($ours, theirs::$theirs);

        impl DriverSys for $ours {
            type Foreign = theirs::$theirs;

            fn to_driver_sys(self) -> Self::Foreign {
                self.0
            }

            fn from_driver_sys(foreign: Self::Foreign) -> Self {
                Self(foreign)
            }
        }
    )*};
}

numbers! {
    CuDevice = CUdevice;
    CuDevicePtr = CUdeviceptr;
    CuMemHandle = CUmemGenericAllocationHandle;
}

macro_rules! byte_arrays {
    ($($ours:ident = $theirs:ident . $field:ident;)*) => {$(
        assert_same_layout!($ours, theirs::$theirs);

        impl DriverSys for $ours {
            type Foreign = theirs::$theirs;

            fn to_driver_sys(self) -> Self::Foreign {
                theirs::$theirs { $field: to_chars(self.$field) }
            }

            fn from_driver_sys(foreign: Self::Foreign) -> Self {
                Self { $field: to_bytes(foreign.$field) }
            }
        }
    )*};
}

byte_arrays! {
    CuUuid = CUuuid.bytes;
    CuIpcMemHandle = CUipcMemHandle.reserved;
    CuIpcEventHandle = CUipcEventHandle.reserved;
}

// One type under two names: no conversion is needed.
const _: fn(CuHostFn) -> theirs::CUhostFn = |function| function;
