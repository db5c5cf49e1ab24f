//! The program's streams: those that it made while this library was there, and all others.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rmm_core::sys::{CuCaptureStatus, CuContext, CuResult, CuStream, Driver};
use rmm_core::{CaptureScope, CudaStream, Error, StreamId, StreamLifetime, StreamRef, fork};

/// The captures that go on, by the streams on which they began.
#[expect(clippy::zero_sized_map_values, reason = "the announcement ends when it is dropped")]
static CAPTURES: Mutex<BTreeMap<Key, CaptureScope>> = Mutex::new(BTreeMap::new());

/// A stream's handle. The per-thread one means another stream in each context of each thread.
type Key = (usize, Option<(StreamId, usize)>);

/// Calls `act` with the stream of a handle.
///
/// # Errors
/// If the driver refuses the handle.
pub(crate) fn with<R>(handle: CuStream, act: impl FnOnce(StreamRef<'_>) -> R) -> Result<R, Error> {
    // SAFETY: the program passes a stream that exists during this call to the driver: it does not
    // destroy it, which would end the announcement. Former streams of the handle were forgotten
    // before the driver destroyed them, or replaced before the program got the handle again.
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

/// Whether the stream is under capture, or the driver cannot say.
pub(crate) fn is_capturing(driver: &Driver, stream: CuStream) -> bool {
    CaptureScope::is_announced() && may_be_captured(driver, stream)
}

fn may_be_captured(driver: &Driver, stream: CuStream) -> bool {
    let mut status = CuCaptureStatus::NONE;
    // SAFETY: the program passes a stream that exists, and `status` may be written to.
    let code = unsafe { driver.cuStreamIsCapturing(stream, &raw mut status) };
    code != CuResult::SUCCESS || status != CuCaptureStatus::NONE
}

fn key(driver: &Driver, stream: CuStream) -> Key {
    let own = (stream == CuStream::PER_THREAD).then(|| {
        let mut context = CuContext::NULL;
        // SAFETY: `context` may be written to. If the driver refuses, it refuses captures too.
        let _ignored = unsafe { driver.cuCtxGetCurrent(&raw mut context) };
        (StreamRef::per_thread().id(), context.addr())
    });
    (stream.addr(), own)
}

/// Keeps the announcement of a capture that has begun.
pub(crate) fn capture_began(driver: &Driver, stream: CuStream, scope: CaptureScope) {
    let former = fork::lock(&CAPTURES).insert(key(driver, stream), scope);
    drop(former);
}

/// The announcement of the capture that began on this stream.
pub(crate) fn take_capture(driver: &Driver, stream: CuStream) -> Option<CaptureScope> {
    fork::lock(&CAPTURES).remove(&key(driver, stream))
}

/// Ends the announcement of a capture whose end the driver was asked for, unless it goes on.
pub(crate) fn capture_may_have_ended(driver: &Driver, stream: CuStream) {
    if !may_be_captured(driver, stream) {
        drop(take_capture(driver, stream));
    }
}
