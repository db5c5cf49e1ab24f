//! A driver table whose functions count their calls.

use std::ffi::{c_char, c_float, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_sys::{
    CuCaptureMode, CuCaptureStatus, CuContext, CuDevice, CuDeviceAttribute, CuDevicePtr, CuEvent,
    CuFunction, CuGraph, CuGraphExec, CuGraphMemAttribute, CuHostFn, CuIpcEventHandle,
    CuIpcMemHandle, CuMemAccessDesc, CuMemAccessFlags, CuMemAdvise, CuMemAllocationProp,
    CuMemAllocationType, CuMemGranularity, CuMemHandle, CuMemHandleType, CuMemLocation, CuMemPool,
    CuMemPoolAttribute, CuMemPoolProps, CuMemPoolPtrExportData, CuMemRangeAttribute, CuModule,
    CuPointerAttribute, CuResult, CuStream, CuUuid, Driver, driver_symbols,
};

static CALLS: AtomicU64 = AtomicU64::new(0);
/// The driver that is called behind the counters: the first one that was wrapped.
static WRAPPED: OnceLock<Driver> = OnceLock::new();

/// Calls so far.
pub(super) fn calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

macro_rules! counted_field {
    (required $field:expr, $name:ident) => {
        functions::$name
    };
    // What the driver lacks stays lacking.
    (optional $field:expr, $name:ident) => {
        $field.map(|_| functions::$name as _)
    };
}

macro_rules! counted {
    ($($kind:ident $since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {
        /// A table that counts and then calls `driver`.
        pub(super) fn wrap(driver: Driver) -> Driver {
            let driver = WRAPPED.get_or_init(|| driver);
            Driver { $($name: counted_field!($kind driver.$name, $name),)* annotations: driver.annotations }
        }

        mod functions {
            use super::*;

            $(
                pub(super) unsafe extern "C" fn $name($($argument: $type),*) -> CuResult {
                    CALLS.fetch_add(1, Ordering::Relaxed);
                    match WRAPPED.get() {
                        // SAFETY: the caller's contract is that of the driver's function.
                        Some(driver) => unsafe { driver.$name($($argument),*) },
                        None => CuResult::NOT_INITIALIZED,
                    }
                }
            )*
        }
    };
}

driver_symbols!(counted);
