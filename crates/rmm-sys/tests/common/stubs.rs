//! A Rust function for every driver function, each of the right signature, so that tables can be
//! made without a driver.

use std::ffi::c_void;

/// What every stub returns.
pub(crate) const STUB_CODE: rmm_sys::CuResult = rmm_sys::CuResult::CALL_REQUIRES_NEWER_DRIVER;

macro_rules! stubs {
    ($($kind:ident $since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {
        mod functions {
            use std::ffi::{c_char, c_float, c_int, c_uchar, c_uint, c_ulonglong, c_void};

            use rmm_sys::*;

            $(
                pub(super) unsafe extern "C" fn $name($(_: $type),*) -> CuResult {
                    super::STUB_CODE
                }
            )*
        }

        /// The address of the stub for the driver function `name`.
        pub(crate) fn address_of(name: &str) -> Option<*mut c_void> {
            match name {
                $(stringify!($name) => Some(functions::$name as *mut c_void),)*
                _ => None,
            }
        }
    };
}

rmm_sys::driver_symbols!(stubs);
