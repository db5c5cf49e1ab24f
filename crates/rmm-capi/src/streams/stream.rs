//! Streams: those that this library makes, and those of others whose end it is told.
//!
//! Functions that take a stream take its handle. A handle that this library knows from here is
//! recognised at once; of any other the driver is asked for the stream's id, since a handle is
//! given to another stream once the first is destroyed.

use std::ffi::c_void;

use rmm_core::sys::CuStream;
use rmm_core::{AnnouncedStream, CudaStream, StreamFlags, StreamLifetime};

use crate::handle::failure::Failure;
use crate::handle::status::Status;
use crate::handle::{guard, library};

/// The stream exists until it is released: fast, and no call of the driver per use.
pub const RMM_RS_STREAM_UNTIL_RELEASED: u32 = 0;
/// No caller says when the stream ends: the driver is asked for its id at each use.
pub const RMM_RS_STREAM_UNKNOWN: u32 = 1;

/// The stream does not wait for the legacy default stream (`CU_STREAM_NON_BLOCKING`).
pub const RMM_RS_STREAM_NON_BLOCKING: u32 = 1;

/// A stream that this library knows.
#[derive(Debug)]
pub struct StreamHandle {
    /// `None` if the end of the stream is unknown. Dropped before `stream`, which may destroy it.
    #[expect(dead_code, reason = "it ends with the stream")]
    announced: Option<AnnouncedStream>,
    stream: CudaStream,
}

/// # Safety
/// `out` is null or may be written to.
unsafe fn give(
    stream: CudaStream,
    is_known: bool,
    out: *mut *mut StreamHandle,
) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::invalid("the place for the stream is null"));
    }
    let announced = is_known.then(|| stream.announce());
    let given = Box::into_raw(Box::new(StreamHandle { announced, stream }));
    // SAFETY: the caller's contract.
    unsafe { out.write(given) };
    Ok(())
}

/// Makes a stream of the current device. `flags` is 0 or `RMM_RS_STREAM_NON_BLOCKING`. The release
/// destroys the stream, whose work goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_stream_new(flags: u32, out: *mut *mut StreamHandle) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { library::clear_mut(out) };
    guard::status(|| {
        let known = StreamFlags::from_bits(flags);
        let flags =
            known.ok_or_else(|| Failure::invalid(format!("{flags} are no stream flags")))?;
        let stream = CudaStream::with_flags(flags, 0)?;
        // SAFETY: by the clause on pointers, `out` is null or valid for a write.
        unsafe { give(stream, true, out) }
    })
}

/// Makes the library know a stream of the caller, of any device. `lifetime` is
/// `RMM_RS_STREAM_UNTIL_RELEASED`: then the stream exists until it is released as often as it was
/// adopted, and every use of the handle is fast; or `RMM_RS_STREAM_UNKNOWN`, which promises
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_stream_adopt(
    stream: *mut c_void,
    lifetime: u32,
    out: *mut *mut StreamHandle,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { library::clear_mut(out) };
    guard::status(|| {
        let handle = CuStream::from_raw(stream);
        let (adopted, is_known) = match lifetime {
            RMM_RS_STREAM_UNTIL_RELEASED => {
                // SAFETY: by the clause on streams, it exists until it is released, and so until
                // the result is dropped.
                (unsafe { CudaStream::adopt_of_any_context(handle) }?, true)
            }
            RMM_RS_STREAM_UNKNOWN => {
                // SAFETY: by the clause on streams, it exists until this returns. It is not used
                // again, but for its handle.
                (unsafe { CudaStream::adopt(handle, StreamLifetime::Unknown) }?, false)
            }
            _ => return Err(Failure::invalid(format!("{lifetime} is no stream lifetime"))),
        };
        // SAFETY: by the clause on pointers, `out` is null or valid for a write.
        unsafe { give(adopted, is_known, out) }
    })
}

/// The handle of the stream, as `cudaStream_t` or `CUstream`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_stream_handle(stream: *const StreamHandle) -> *mut c_void {
    // SAFETY: by the clause on handles, `stream` is null or live during the call.
    let stream = unsafe { stream.as_ref() };
    stream.map_or(std::ptr::null_mut(), |stream| stream.stream.as_raw().as_raw())
}

/// Releases a stream: before the caller destroys it, if it was adopted. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_stream_release(stream: *mut StreamHandle) {
    guard::value((), || {
        if stream.is_null() {
            return;
        }
        // SAFETY: it came from `Box::into_raw`, and by the clause on handles its only reference
        // ends here.
        drop(unsafe { Box::from_raw(stream) });
    });
}

/// Says that a stream is about to be destroyed which was kept by a resource's policy. A handle that
/// is not known is not an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_stream_forget(stream: *mut c_void) -> Status {
    guard::status(|| {
        CudaStream::forget_raw(CuStream::from_raw(stream));
        Ok(())
    })
}
