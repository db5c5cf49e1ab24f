//! The library: its version, the driver, and the last error of a thread.

use std::ffi::c_char;
use std::ptr;

use rmm_core::sys::Driver;

use crate::handle::failure::{ErrorFigures, Failure};
use crate::handle::guard;
use crate::handle::sized::{self, Sized};
use crate::handle::status::{RMM_RS_OK, RMM_RS_REFUSED, Status};
use crate::handle::text;

/// The version of this interface: the major number in the upper 16 bits, the minor one in the
/// lower. Functions are added with a minor version; none is removed or changed but with a major
/// one, which the library's name carries.
pub const RMM_RS_ABI_VERSION: u32 = 0x0001_0000;

/// A figure of an error that is not known.
pub const RMM_RS_UNKNOWN: u64 = u64::MAX;

/// The details of a failure.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ErrorDetail {
    /// `sizeof(rmm_rs_error)`, set by the caller.
    pub size: usize,
    /// The status of the failed call, or 0 if none failed on this thread.
    pub status: i32,
    /// The driver's code (`CUresult`), or 0.
    pub cuda_code: i32,
    /// Bytes requested, like all that follow; `RMM_RS_UNKNOWN` where it is not known.
    pub requested: u64,
    /// The most that the resource may reserve.
    pub limit: u64,
    /// The bytes that it had reserved.
    pub reserved: u64,
    /// Those of them that were allocated.
    pub live: u64,
    /// Its largest free block.
    pub largest_free: u64,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers only.
unsafe impl Sized for ErrorDetail {}

/// The version of the interface that the library has, to compare with `RMM_RS_ABI_VERSION` of the
/// header: the upper 16 bits must be equal, the lower ones at least as high.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_abi_version() -> u32 {
    RMM_RS_ABI_VERSION
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Whether there is a driver that the library can use: `RMM_RS_OK` or `RMM_RS_CUDA_ERROR`.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_driver_status() -> Status {
    guard::status(|| {
        let _driver = Driver::get().map_err(rmm_core::Error::from)?;
        Ok(())
    })
}

/// Copies the text of the calling thread's last failure into the buffer, cut off where it does not
/// fit, with a zero byte at its end. Returns the length of the whole text without that byte: 0 if
/// no call failed. The buffer may be null if the capacity is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_last_error_message(buffer: *mut c_char, capacity: usize) -> usize {
    // SAFETY: by the clause on texts, `buffer` is null or has `capacity` bytes.
    unsafe { text::clear(buffer, capacity) };
    guard::contained(0, || {
        let write = |last: Option<&Failure>| {
            let message = last.map_or("", |failure| failure.text.as_str());
            // SAFETY: by the clause on texts, `buffer` is null or has `capacity` bytes.
            unsafe { text::write(message, buffer, capacity) }
        };
        guard::with_last(write).unwrap_or(0)
    })
}

/// Writes the details of the calling thread's last failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_last_error_detail(out: *mut ErrorDetail) -> Status {
    let none = ErrorFigures::default();
    let detail = guard::with_last(|last| {
        let figures = last.map_or(none, |failure| *failure.figures);
        let or_unknown = |figure: Option<u64>| figure.unwrap_or(RMM_RS_UNKNOWN);
        ErrorDetail {
            size: 0,
            status: last.map_or(RMM_RS_OK, |failure| failure.status),
            cuda_code: figures.cuda_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(0),
            requested: or_unknown(figures.requested),
            limit: or_unknown(figures.limit),
            reserved: or_unknown(figures.reserved),
            live: or_unknown(figures.live),
            largest_free: or_unknown(figures.largest_free),
        }
    });
    // It concerns the thread alone, so it also answers while nothing else does.
    guard::contained(RMM_RS_OK, || {
        let Some(detail) = detail else { return RMM_RS_OK };
        // SAFETY: by the clause on structures, `out` is null or as large as it says, and writable.
        let written = unsafe { sized::write("rmm_rs_error", out, &detail) };
        written.map_or_else(guard::note, |()| RMM_RS_OK)
    })
}

/// Sets the text of the calling thread's last failure: for callbacks that are about to return a
/// status other than `RMM_RS_OK`. Null is an empty text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_set_last_error(message: *const c_char) {
    guard::contained((), || {
        // SAFETY: by the clause on texts, `message` is null or ends with a zero byte.
        let message = unsafe { text::read("message", message) }.unwrap_or("").to_owned();
        guard::note(Failure::plain(RMM_RS_REFUSED, message));
    });
}

/// Writes a null pointer where a result goes, if there is such a place.
///
/// # Safety
/// `out` is null or may be written to.
pub(crate) unsafe fn clear<T>(out: *mut *const T) {
    if !out.is_null() {
        // SAFETY: the caller's contract.
        unsafe { out.write(ptr::null()) };
    }
}

/// Writes 0 where a number goes, if there is such a place.
///
/// # Safety
/// `out` is null or may be written to.
pub(crate) unsafe fn clear_number(out: *mut u64) {
    if !out.is_null() {
        // SAFETY: the caller's contract.
        unsafe { out.write(0) };
    }
}

/// Writes a null pointer where a mutable one goes, of memory or a stream, if there is such a place.
///
/// # Safety
/// `out` is null or may be written to.
pub(crate) unsafe fn clear_mut<T>(out: *mut *mut T) {
    if !out.is_null() {
        // SAFETY: the caller's contract.
        unsafe { out.write(ptr::null_mut()) };
    }
}
