//! Allocation by a client.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use rmm_core::sys::CuStream;
use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, CaptureScope, DevicePtr, Error, ErrorKind, StreamId, StreamRef,
    SynchronousResource as _,
};

use super::block::{Block, ClientHandle, Source};
use super::counts::BlockSize;
use super::settle;
use super::table;
use crate::calls::allocate::{layout, to_c};
use crate::handle::failure::Failure;
use crate::handle::resource::ResourceHandle;
use crate::streams;

/// The stream of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestStream {
    /// A stream that exists until it is forgotten.
    Kept(CuStream),
    /// A stream that exists during the call.
    Unknown(CuStream),
    /// None: the memory may be used at once.
    None,
}

/// Allocates a block for a client: from `pool`, or else its own resource, or else the device's
/// current one. No bytes are null. A request that fails for want of memory waits for the client's
/// pending blocks and is tried once more.
///
/// # Errors
/// Those of the resource; if the request is beyond the client's limit.
///
/// # Safety
/// The stream is a default stream, or exists as [`RequestStream`] says.
#[inline]
pub(crate) unsafe fn allocate(
    client: &Arc<ClientHandle>,
    pool: Option<Arc<ResourceHandle>>,
    stream: RequestStream,
    bytes: usize,
) -> Result<*mut c_void, Failure> {
    if bytes == 0 {
        return Ok(ptr::null_mut());
    }
    let layout = layout(bytes, CUDA_ALLOCATION_ALIGNMENT)?;
    let size = BlockSize { requested: bytes };
    settle::poll(client);
    let room = client.counts.reserve(size)?;
    let _current = client.device.enter()?;
    let source = Source::of_request(client, pool)?;
    let attempt = || -> Result<(DevicePtr, Option<StreamId>), Error> {
        let allocate = |stream: StreamRef<'_>| {
            source.allocate(client, stream, layout).map(|pointer| (pointer, Some(stream.id())))
        };
        match stream {
            // SAFETY: the caller's contract.
            RequestStream::Kept(stream) => unsafe { streams::with_kept(stream, allocate) }?,
            // SAFETY: the caller's contract.
            RequestStream::Unknown(stream) => unsafe { streams::with(stream, || false, allocate) }?,
            RequestStream::None => Ok((source.any(client).allocate_sync(layout)?, None)),
        }
    };
    let allocated = match attempt() {
        Err(error) if may_succeed_later(client, &error) => {
            // If that fails some blocks may have come back all the same.
            let _ignored = settle::wait(client);
            attempt()
        }
        allocated => allocated,
    };
    let (pointer, stream_id) = allocated.map_err(|error| Failure::of_allocation(&error))?;
    let pointer = to_c(pointer);
    room.fill(size);
    let stream = match stream {
        RequestStream::Kept(stream) | RequestStream::Unknown(stream) => stream,
        RequestStream::None => CuStream::NULL,
    };
    let recorded = Vec::new();
    let block = Block {
        client: Arc::clone(client),
        source,
        size,
        stream,
        stream_id,
        recorded,
        is_pending: false,
    };
    if let Some(replaced) = table::enter(pointer.addr(), block) {
        // Its memory was freed by other means, and is not allocated twice.
        replaced.count_return();
    }
    Ok(pointer)
}

/// Whether pending blocks may be what a request lacked.
#[cold]
fn may_succeed_later(client: &ClientHandle, error: &Error) -> bool {
    error.kind() == ErrorKind::OutOfMemory
        && !client.pending.is_empty()
        && !CaptureScope::is_announced()
}
