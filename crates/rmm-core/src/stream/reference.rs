//! Streams as borrowed values.

use std::fmt;
use std::marker::PhantomData;

use rmm_sys::CuStream;

use super::{CudaStream, StreamId, StreamKind};
use crate::driver::{check, driver_in_context};
use crate::{CudaEvent, Error};

/// A stream, borrowed: what resources and containers take. Copying costs nothing and calls nothing.
///
/// It can not be sent to another thread, because [`per_thread`](Self::per_thread) means another stream there; send the
/// [`CudaStream`] and borrow it anew.
///
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// send(rmm_core::StreamRef::per_thread());
/// ```
#[doc(alias = "cuda::stream_ref")]
#[doc(alias = "cuda::stream_view")]
#[doc(alias = "rmm::cuda_stream_view")]
#[derive(Clone, Copy)]
pub struct StreamRef<'a> {
    stream: &'a CudaStream,
    /// # Invariant
    /// The stream's id; for the per-thread default stream that of the thread that holds this value.
    id: StreamId,
    thread_bound: PhantomData<*const ()>,
}

impl<'a> StreamRef<'a> {
    pub(super) fn new(stream: &'a CudaStream, id: StreamId) -> Self {
        Self { stream, id, thread_bound: PhantomData }
    }

    /// The legacy default stream.
    pub fn legacy() -> StreamRef<'static> {
        CudaStream::legacy_ref()
    }

    /// The calling thread's own default stream.
    pub fn per_thread() -> StreamRef<'static> {
        CudaStream::per_thread_ref()
    }

    /// Who the stream is.
    pub fn id(self) -> StreamId {
        self.id
    }

    /// What kind of stream it is.
    pub fn kind(self) -> StreamKind {
        self.stream.kind()
    }

    /// The stream as an owned value.
    pub fn to_owned(self) -> CudaStream {
        self.stream.clone()
    }

    /// The stream as a borrowed [`CudaStream`].
    pub fn as_stream(self) -> &'a CudaStream {
        self.stream
    }

    /// The driver's own value.
    pub fn as_raw(self) -> CuStream {
        self.stream.as_raw()
    }

    /// Waits on this thread until all work of the stream is done.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaStreamSynchronize")]
    pub fn synchronize(self) -> Result<(), Error> {
        let (driver, _) = driver_in_context()?;
        // SAFETY: the stream exists while it is borrowed.
        check("cuStreamSynchronize", unsafe { driver.cuStreamSynchronize(self.as_raw()) })
    }

    /// Whether all work of the stream is done. Never waits.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaStreamQuery")]
    pub fn is_idle(self) -> Result<bool, Error> {
        // SAFETY: the stream exists while it is borrowed.
        unsafe { CudaStream::is_idle_raw(self.as_raw()) }
    }

    /// Has all work that is enqueued from now on wait for `event`'s mark. The thread does not wait.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaStreamWaitEvent")]
    pub fn wait(self, event: &CudaEvent) -> Result<(), Error> {
        let (driver, _) = driver_in_context()?;
        // SAFETY: the stream exists while it is borrowed, and so does the event.
        check("cuStreamWaitEvent", unsafe {
            driver.cuStreamWaitEvent(self.as_raw(), event.as_raw(), 0)
        })
    }
}

impl<'a> From<&'a CudaStream> for StreamRef<'a> {
    fn from(stream: &'a CudaStream) -> Self {
        stream.as_ref()
    }
}

impl PartialEq for StreamRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for StreamRef<'_> {}

impl fmt::Debug for StreamRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRef")
            .field("id", &self.id)
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}
