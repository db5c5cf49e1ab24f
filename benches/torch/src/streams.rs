//! Streams that arrive as handles, each adopted once.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use rmm_core::{CudaStream, Error, StreamLifetime};
use rmm_sys::CuStream;

/// Every stream that came so far, by its handle. They are kept to the end of the process, so no
/// handle means a second stream.
static STREAMS: LazyLock<RwLock<HashMap<CuStream, &'static CudaStream>>> =
    LazyLock::new(RwLock::default);

thread_local! {
    /// The stream that this thread used last: most programs change it seldom.
    static LAST: Cell<Option<(CuStream, &'static CudaStream)>> = const { Cell::new(None) };
}

/// The stream with this handle; the handles 0, 1 and 2 are the default streams'.
///
/// # Safety
/// The stream belongs to the current context, which is always the same one, and is never destroyed.
pub(crate) unsafe fn adopted(handle: CuStream) -> Result<&'static CudaStream, Error> {
    if let Some((last, stream)) = LAST.get()
        && last == handle
    {
        return Ok(stream);
    }
    // SAFETY: the caller's contract.
    let stream = unsafe { looked_up(handle) }?;
    LAST.set(Some((handle, stream)));
    Ok(stream)
}

/// # Safety
/// As for [`adopted`].
unsafe fn looked_up(handle: CuStream) -> Result<&'static CudaStream, Error> {
    if let Some(stream) = STREAMS.read().unwrap_or_else(PoisonError::into_inner).get(&handle) {
        return Ok(stream);
    }
    let mut streams = STREAMS.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(stream) = streams.get(&handle) {
        return Ok(stream);
    }
    // SAFETY: the stream exists as long as the process, by the caller's contract, and so longer
    // than what adopts it.
    let stream = unsafe { CudaStream::adopt(handle, StreamLifetime::UntilDropped) }?;
    let stream: &'static CudaStream = Box::leak(Box::new(stream));
    streams.insert(handle, stream);
    Ok(stream)
}
