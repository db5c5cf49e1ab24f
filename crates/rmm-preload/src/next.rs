//! The driver's functions that are not in the library's table.

use std::ffi::{CStr, c_char, c_void};

/// The function of this name in the libraries behind this one, of which the driver's is one.
///
/// # Safety
/// `F` is the function's type.
pub(crate) unsafe fn next<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "it is a function's type") };
    let name: *const c_char = name.as_ptr();
    // SAFETY: the name ends with a zero.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
    // SAFETY: a function's address is a value of its type, as the caller says of `F`.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}
