//! The streams that raw handles name: [`StreamRef::with_announced`], and what a resource's policy
//! says of the streams that were not announced.
//!
//! ```text
//! handle -- 0, 1, 2 --------------> the default streams
//!    |
//!    +-- announced ---------------> that stream: made or adopted here
//!    |
//!    +-- the resource keeps ------> adopted, and announced until it is forgotten
//!    |
//!    +-- else --------------------> a stream of unknown end: the driver is asked for its id
//! ```

pub mod capture;
pub mod stream;

use rmm_core::sys::CuStream;
use rmm_core::{CudaStream, Error, StreamRef};

/// Calls `act` with the stream that a handle names; `keeps` says whether the resource keeps
/// streams, of which each is announced when it is first used.
///
/// # Errors
/// If there is no driver, or it does not know the handle; then `act` is not called.
///
/// # Safety
/// The handle is 0, 1 or 2, or names a stream that exists during the call, and, if it was adopted
/// or is kept, until it is released or [forgotten](CudaStream::forget_raw). Each such end, also of
/// a former stream with the handle, happens-before the call or happens-after its return.
#[inline]
pub(crate) unsafe fn with<R>(
    handle: CuStream,
    keeps: impl FnOnce() -> bool,
    act: impl FnOnce(StreamRef<'_>) -> R,
) -> Result<R, Error> {
    // SAFETY: the caller's contract.
    match unsafe { StreamRef::with_announced(handle, act) } {
        Ok(result) => Ok(result),
        // SAFETY: the caller's contract.
        Err(act) => unsafe { with_other(handle, keeps, act) },
    }
}

/// Calls `act` with the stream that a handle names for blocks of clients, whose other uses are
/// recorded: so the legacy default stream is [that of its own
/// work](StreamRef::legacy_of_own_work). Streams are kept.
///
/// # Errors
/// As for [`with`].
///
/// # Safety
/// As for [`with`].
#[inline]
pub(crate) unsafe fn with_kept<R>(
    handle: CuStream,
    act: impl FnOnce(StreamRef<'_>) -> R,
) -> Result<R, Error> {
    match handle {
        CuStream::NULL | CuStream::LEGACY => Ok(act(StreamRef::legacy_of_own_work())),
        // SAFETY: the caller's contract.
        _ => unsafe { with(handle, || true, act) },
    }
}

/// Calls `act` with the stream of a client's block, as [`with_kept`] does, unless it was not
/// announced.
///
/// # Safety
/// As for [`with`].
pub(crate) unsafe fn with_known<R>(
    handle: CuStream,
    act: impl FnOnce(StreamRef<'_>) -> R,
) -> Option<R> {
    match handle {
        CuStream::NULL | CuStream::LEGACY => Some(act(StreamRef::legacy_of_own_work())),
        // SAFETY: the caller's contract.
        _ => unsafe { StreamRef::with_announced(handle, act) }.ok(),
    }
}

/// Calls `act` with the stream of a handle that was not announced, which it is first if the
/// resource keeps streams.
///
/// # Safety
/// As for [`with`].
#[inline(never)]
unsafe fn with_other<R>(
    handle: CuStream,
    keeps: impl FnOnce() -> bool,
    act: impl FnOnce(StreamRef<'_>) -> R,
) -> Result<R, Error> {
    if keeps() {
        // SAFETY: the stream exists until it is forgotten, by the caller's contract, and so until
        // it is dropped.
        let stream = unsafe { CudaStream::adopt_of_any_context(handle) }?;
        stream.announce_until_forgotten();
        return Ok(act(stream.as_stream_ref()));
    }
    // SAFETY: the stream exists during this call, by the caller's contract.
    unsafe { StreamRef::with_raw(handle, act) }
}
