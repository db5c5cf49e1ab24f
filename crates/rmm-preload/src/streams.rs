//! The program's streams: those that it made while this library was there, and all others.

use std::sync::LazyLock;

use dashmap::DashMap;
use rmm_core::sys::{CuCaptureStatus, CuResult, CuStream, Driver};
use rmm_core::{CaptureScope, CudaStream, Error, StreamLifetime, StreamRef};

/// Captures that have begun and not ended, by their streams.
static CAPTURES: LazyLock<DashMap<CuStream, CaptureScope>> = LazyLock::new(DashMap::new);

/// Calls `act` with the stream of a handle.
///
/// # Errors
/// If the driver refuses the handle.
pub(crate) fn with<R>(handle: CuStream, act: impl FnOnce(StreamRef<'_>) -> R) -> Result<R, Error> {
    // SAFETY: the program passes a stream that exists during this call to the driver: it does not
    // destroy it, which would end the announcement.
    match unsafe { StreamRef::with_announced(handle, act) } {
        Ok(result) => Ok(result),
        // SAFETY: the stream exists during this call.
        Err(act) => unsafe { StreamRef::with_raw(handle, act) },
    }
}

/// Notes a stream that the program has made.
pub(crate) fn made(handle: CuStream) {
    // SAFETY: it was made in the current context. `ended` forgets it before it is destroyed.
    let adopted = unsafe { CudaStream::adopt(handle, StreamLifetime::UntilDropped) };
    // Otherwise it is one of those whose end is unknown.
    if let Ok(stream) = adopted {
        stream.announce_until_forgotten();
    }
}

/// Notifies the pools that a stream is about to be destroyed.
pub(crate) fn ended(handle: CuStream) {
    CudaStream::forget_raw(handle);
}

/// Whether the stream is under capture.
pub(crate) fn is_capturing(driver: &Driver, stream: CuStream) -> bool {
    if !CaptureScope::is_announced() {
        return false;
    }
    let mut status = CuCaptureStatus::NONE;
    // SAFETY: the program passes a stream that exists, and `status` may be written to.
    let code = unsafe { driver.cuStreamIsCapturing(stream, &raw mut status) };
    code != CuResult::SUCCESS || status != CuCaptureStatus::NONE
}

/// Announces a capture to the pools.
pub(crate) fn capture_begins(stream: CuStream) {
    drop(CAPTURES.insert(stream, CaptureScope::announce()));
}

/// Notes that the capture has ended, or did not begin.
pub(crate) fn capture_ends(stream: CuStream) {
    drop(CAPTURES.remove(&stream));
}
