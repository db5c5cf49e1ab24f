//! The program's streams: those that it made while this library was there, and all others.

use std::sync::LazyLock;

use dashmap::DashMap;
use rmm_core::sys::{CuCaptureStatus, CuResult, CuStream, Driver};
use rmm_core::{CaptureScope, CudaStream, Error, StreamLifetime, StreamRef};

/// Streams that the program made and has not destroyed.
static MADE: LazyLock<DashMap<CuStream, CudaStream>> = LazyLock::new(DashMap::new);

/// Captures that have begun and not ended, by their streams.
static CAPTURES: LazyLock<DashMap<CuStream, CaptureScope>> = LazyLock::new(DashMap::new);

/// Calls `act` with the stream of a handle.
///
/// # Errors
/// If the driver refuses the handle.
pub(crate) fn with<R>(handle: CuStream, act: impl FnOnce(StreamRef<'_>) -> R) -> Result<R, Error> {
    // Cloned, so that no lock is held while a pool works.
    let made = MADE.get(&handle).map(|stream| stream.clone());
    match made {
        Some(stream) => Ok(act(stream.as_stream_ref())),
        // SAFETY: the program passes a stream that exists during this call to the driver.
        None => unsafe { StreamRef::with_raw(handle, act) },
    }
}

/// Notes a stream that the program has made.
pub(crate) fn made(handle: CuStream) {
    // SAFETY: it was made in the current context. `ended` forgets it before it is destroyed.
    let adopted = unsafe { CudaStream::adopt(handle, StreamLifetime::UntilDropped) };
    // Otherwise it is one of those whose end is unknown.
    if let Ok(stream) = adopted {
        drop(MADE.insert(handle, stream));
    }
}

/// Notifies the pools that a stream is about to be destroyed.
pub(crate) fn ended(handle: CuStream) {
    drop(MADE.remove(&handle));
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
