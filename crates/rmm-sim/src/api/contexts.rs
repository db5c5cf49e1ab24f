//! Contexts beside the primary ones, and the flags of contexts. The driver's table has no functions
//! for them, because the library does not call them; programs that do call them through the
//! libraries of `rmm-sim-cuda`.

use std::ffi::c_uint;

use rmm_sys::{CuContext, CuDevice, CuResult};

/// Creates a context of a device beside its primary one, and makes it current to the calling thread
/// (`cuCtxCreate_v2`). It has default streams, streams, events and memory of its own, which end
/// with it. Peer access, and the failure of a kernel, count for all contexts of a device, other
/// than on a GPU.
///
/// # Safety
/// `context` is null or valid for a write.
#[doc(hidden)]
pub unsafe fn create_context(context: *mut CuContext, flags: c_uint, device: CuDevice) -> CuResult {
    // SAFETY: the caller's contract.
    unsafe { crate::calls::cuCtxCreate_v2(context, flags, device) }
}

/// Destroys a context of [`create_context`] with its streams, events and memory, after its work is
/// complete (`cuCtxDestroy_v2`). A primary context is refused with `INVALID_CONTEXT`.
#[doc(hidden)]
pub fn destroy_context(context: CuContext) -> CuResult {
    // SAFETY: no argument is a pointer to memory.
    unsafe { crate::calls::cuCtxDestroy_v2(context) }
}

/// Sets the flags of a device's primary context (`cuDevicePrimaryCtxSetFlags_v2`).
#[doc(hidden)]
pub fn set_primary_context_flags(device: CuDevice, flags: c_uint) -> CuResult {
    // SAFETY: no argument is a pointer.
    unsafe { crate::calls::cuDevicePrimaryCtxSetFlags_v2(device, flags) }
}

/// Writes the flags of the current context (`cuCtxGetFlags`).
///
/// # Safety
/// `flags` is null or valid for a write.
#[doc(hidden)]
pub unsafe fn context_flags(flags: *mut c_uint) -> CuResult {
    // SAFETY: the caller's contract.
    unsafe { crate::calls::cuCtxGetFlags(flags) }
}

/// Sets the flags of the current context (`cuCtxSetFlags`).
#[doc(hidden)]
pub fn set_context_flags(flags: c_uint) -> CuResult {
    // SAFETY: no argument is a pointer.
    unsafe { crate::calls::cuCtxSetFlags(flags) }
}
