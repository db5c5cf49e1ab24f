//! Streams of one library in the other.

use std::sync::Arc;

use cuda_core::{Context, Stream};
use rmm_core::sys::CuStream;
use rmm_core::{CudaStream, Error, StreamKind, StreamLifetime};

use crate::{NAME, is_same};

/// A stream of `cuda-core` as one of rmm's, which keeps it: containers on it may outlive every
/// variable of the program's that refers to the stream. A stream that was adopted already is the
/// same stream again.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// If the stream is ever captured, the graph is launched only while the memory that its work uses
/// is allocated, and in order with all other uses of that memory. A capture of it does not begin or
/// end on one thread during a call that another thread makes with it.
pub unsafe fn adopt_stream(theirs: &Arc<Stream>) -> Result<CudaStream, Error> {
    let context = theirs.context();
    let refused = |error: cuda_core::DriverError| {
        let message = format!("the stream's context cannot be made current: {error}");
        Error::invalid_argument(NAME, message)
    };
    context.bind_to_thread().map_err(refused)?;
    let handle = CuStream::from_raw(theirs.cu_stream().cast());
    let owner = Arc::clone(theirs);
    // SAFETY: the stream belongs to the context that was made current, and exists for as long as
    // `owner`. Of captures the caller says the same.
    unsafe { CudaStream::adopt_owned_by(handle, owner) }
}

/// A stream of rmm as one of `cuda-core`'s, which keeps it.
///
/// # Errors
/// If `context` is not the stream's, or the stream cannot be lent: a per-thread default stream is
/// another one on each thread, and a handle of unknown lifetime may name another stream later.
pub fn lend_stream(ours: &CudaStream, context: &Arc<Context>) -> Result<Arc<Stream>, Error> {
    let message = match ours.kind() {
        StreamKind::PerThread => {
            "a per-thread default stream is another one on each thread: create a stream"
        }
        StreamKind::Adopted(StreamLifetime::Unknown) => {
            "the stream may be destroyed at any time: adopt it with its owner"
        }
        // A default stream is that of each context.
        _ if ours.own_context().is_some_and(|own| !is_same(own, context)) => {
            "the stream belongs to another context than the one that was given"
        }
        _ => {
            let owner = Arc::new(ours.clone());
            // SAFETY: the stream exists for as long as `owner`, and belongs to this context.
            return Ok(unsafe {
                Stream::borrow_with_owner(ours.as_raw().as_raw(), context, owner)
            });
        }
    };
    Err(Error::invalid_argument(NAME, message))
}
