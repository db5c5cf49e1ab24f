//! Names: of status codes, and of functions.

use std::ffi::{CStr, c_char, c_int, c_ulonglong, c_void};

use rmm_sys::CuResult;

use super::put;
use crate::errors::texts_of;
use crate::proc_address::{self, PER_THREAD_DEFAULT_STREAM};

/// What `cuGetProcAddress_v2` writes as the status.
const FOUND: c_int = 0;
const SYMBOL_NOT_FOUND: c_int = 1;

driver_shims! {
    fn cuGetErrorName(code: CuResult, text: *mut *const c_char) {
        let name = texts_of(code).map(|(name, _)| name.as_ptr());
        // SAFETY: the caller's contract.
        let written = unsafe { put(text, name.unwrap_or(std::ptr::null())) };
        if name.is_some() { written } else { CuResult::INVALID_VALUE }
    }

    fn cuGetErrorString(code: CuResult, text: *mut *const c_char) {
        let found = texts_of(code).map(|(_, text)| text.as_ptr());
        // SAFETY: the caller's contract.
        let written = unsafe { put(text, found.unwrap_or(std::ptr::null())) };
        if found.is_some() { written } else { CuResult::INVALID_VALUE }
    }

    fn cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: c_ulonglong) {
        // SAFETY: the caller's contract.
        unsafe { cuGetProcAddress_v2(symbol, function, version, flags, std::ptr::null_mut()) }
    }

    fn cuGetProcAddress_v2(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: c_ulonglong, status: *mut c_int) {
        if symbol.is_null() {
            return CuResult::INVALID_VALUE;
        }
        if flags & PER_THREAD_DEFAULT_STREAM != 0 {
            return CuResult::NOT_SUPPORTED;
        }
        // SAFETY: it is not null, and the driver documents a null-terminated string.
        let name = unsafe { CStr::from_ptr(symbol) };
        let found = name.to_str().ok().and_then(|name| proc_address::find(name, version));
        // SAFETY: the caller's contract.
        let written = unsafe { put(function, found.unwrap_or(std::ptr::null()).cast_mut()) };
        if status.is_null() {
            return if found.is_some() { written } else { CuResult::NOT_FOUND };
        }
        // SAFETY: as above.
        let _ignored = unsafe { put(status, if found.is_some() { FOUND } else { SYMBOL_NOT_FOUND }) };
        written
    }
}
