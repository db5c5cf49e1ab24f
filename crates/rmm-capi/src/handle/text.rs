//! Texts in and out.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::handle::failure::Failure;

/// A text of the caller.
///
/// # Safety
/// `text` is null or a text that ends with a zero byte and stays as it is for `'a`.
pub(crate) unsafe fn read<'a>(what: &str, text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::invalid(format!("{what} is null")));
    }
    // SAFETY: it is a text that ends with a zero byte, by the caller's contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// Writes the text of no bytes: what a buffer has if nothing else is written.
///
/// # Safety
/// As for [`write`].
pub(crate) unsafe fn clear(buffer: *mut c_char, capacity: usize) {
    // SAFETY: the caller's contract.
    let _ignored = unsafe { write("", buffer, capacity) };
}

/// Writes as much of a text as fits, and a zero byte. Returns the bytes of the whole text, without
/// the zero.
///
/// # Safety
/// `buffer` is null, or `capacity` bytes from it on may be written to.
pub(crate) unsafe fn write(text: &str, buffer: *mut c_char, capacity: usize) -> usize {
    if !buffer.is_null() && capacity > 0 {
        let mut fits = text.len().min(capacity - 1);
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        // SAFETY: `fits` bytes are less than the capacity and than the text; the two do not
        // overlap, since the text is this library's.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, fits) };
        // SAFETY: the byte behind them is within the capacity.
        let end = unsafe { buffer.add(fits) };
        // SAFETY: as above.
        unsafe { end.write(0) };
    }
    text.len()
}
