//! Borrowed streams.

use std::fmt;
use std::marker::PhantomData;

use rmm_sys::{CuStream, Driver};

use super::StreamId;
use super::owned::{CudaStream, StreamKind};
use crate::driver::{check, driver_in_context, loaded_driver};
use crate::{Context, Device, Error};

/// A borrowed stream, as resources and containers take it. Copying it is free.
///
/// It cannot be sent to another thread, because [`per_thread`](Self::per_thread) means another
/// stream there; send the [`CudaStream`] and borrow it anew. Two are equal if they are the same
/// stream by [id](Self::id), not by handle.
///
/// ```
/// use rmm_core::{CudaStream, StreamRef};
///
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let borrowed = StreamRef::from(&stream);
/// assert_eq!(borrowed, stream);
/// assert!(!borrowed.is_default() && StreamRef::legacy().is_default());
/// assert!(StreamRef::per_thread().is_per_thread_default());
/// assert_eq!(borrowed.device()?.ordinal(), 0);
/// borrowed.synchronize()?;
/// assert!(borrowed.is_idle()?);
/// assert_eq!(borrowed.to_owned(), stream);
/// # Ok::<(), rmm_core::Error>(())
/// ```
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
    /// For a handle of unknown lifetime, the handle's or that of the stream that it names.
    id: StreamId,
    thread_bound: PhantomData<*const ()>,
}

impl<'a> StreamRef<'a> {
    #[inline]
    fn new(stream: &'a CudaStream, id: StreamId) -> Self {
        Self { stream, id, thread_bound: PhantomData }
    }

    /// The legacy default stream.
    #[doc(alias = "cuda_stream_legacy")]
    #[doc(alias = "cuda_stream_default")]
    pub fn legacy() -> StreamRef<'static> {
        CudaStream::legacy_static().as_stream_ref()
    }

    /// The legacy default stream with an identity of its own, for memory that is used by work of
    /// this stream and of no blocking stream, unless that work is complete at the free. So a
    /// suballocator needs no event between a free and the next use on the stream. For resources
    /// whose programs say which other streams use a block, as `PyTorch` does. **Unstable**: may
    /// change in any release.
    #[doc(hidden)]
    pub fn legacy_of_own_work() -> StreamRef<'static> {
        CudaStream::legacy_of_own_work_static().as_stream_ref()
    }

    /// The calling thread's own default stream.
    #[doc(alias = "cuda_stream_per_thread")]
    pub fn per_thread() -> StreamRef<'static> {
        CudaStream::per_thread_static().as_stream_ref()
    }

    /// The stream's identity; that of the handle, if it was [adopted](CudaStream::adopt) with an
    /// [unknown lifetime](crate::StreamLifetime::Unknown). A resource that keeps memory by stream
    /// asks [`identify`](Self::identify).
    #[inline]
    pub fn id(self) -> StreamId {
        self.id
    }

    /// The same stream with its own identity as the [`id`](Self::id), for authors of resources: see
    /// [`identify`](Self::identify). **Unstable**: may change in any release.
    ///
    /// # Errors
    /// The errors of [`identify`](Self::identify).
    #[doc(hidden)]
    #[inline]
    pub fn identified(self) -> Result<Self, Error> {
        Ok(Self { id: self.identify()?, ..self })
    }

    /// The name that [`CudaStream::with_name`] gave the stream.
    pub fn name(self) -> Option<String> {
        self.id.name()
    }

    /// What kind of stream it is.
    pub fn kind(self) -> StreamKind {
        self.stream.kind()
    }

    /// Whether it is the legacy default stream, which is what the handles 0 and `cudaStreamLegacy`
    /// mean.
    ///
    /// RMM's function of this name refers to the per-thread stream if the program is compiled with
    /// per-thread default streams; here a program names the one it means.
    #[doc(alias = "rmm::cuda_stream_view::is_default")]
    #[doc(alias = "is_default_stream")]
    pub fn is_default(self) -> bool {
        self.kind() == StreamKind::Legacy
    }

    /// Whether it is the calling thread's own default stream.
    #[doc(alias = "rmm::cuda_stream_view::is_per_thread_default")]
    pub fn is_per_thread_default(self) -> bool {
        self.kind() == StreamKind::PerThread
    }

    /// The device that the stream belongs to; for a default stream the current one.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaStreamGetDevice")]
    pub fn device(self) -> Result<Device, Error> {
        let _entered = self.own_context().map(Context::enter).transpose()?;
        Device::current()
    }

    /// Checks that the stream's context still exists. A stream ends with its context, and the
    /// driver must not be called with its handle then. The default streams belong to the current
    /// context.
    ///
    /// # Errors
    /// An error with [`is_context_lost`](Error::is_context_lost) if not.
    pub fn check_context(self) -> Result<(), Error> {
        self.own_context().map_or(Ok(()), Context::check)
    }

    /// The driver, for a call that names this stream: its context [still
    /// exists](Self::check_context), and some context is current.
    pub(crate) fn driver(self) -> Result<&'static Driver, Error> {
        let driver = loaded_driver()?;
        if !self.own_context().is_some_and(|context| context.is_current(driver)) {
            self.check_context()?;
            driver_in_context()?;
        }
        Ok(driver)
    }

    /// The context that the stream belongs to; for a default stream the current one.
    ///
    /// ```
    /// use rmm_core::{Context, CudaStream, StreamRef};
    ///
    /// # let _machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// assert_eq!(stream.context()?, Context::current()?);
    /// assert_eq!(StreamRef::legacy().context()?, Context::current()?);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the stream is a default one, and [`Context::current`] fails.
    #[doc(alias = "cuStreamGetCtx")]
    pub fn context(self) -> Result<Context, Error> {
        self.own_context().map_or_else(Context::current, Ok)
    }

    /// The context that the stream was made in; `None` for the default streams, which belong to the
    /// context that is current when they are used.
    pub fn own_context(self) -> Option<Context> {
        self.stream.own_context()
    }

    /// Whether the stream is known never to synchronize with the legacy default stream, so that
    /// only its own work and the events that it waits for can delay it.
    pub fn is_non_blocking(self) -> bool {
        self.stream.is_non_blocking()
    }

    /// An owned stream: a clone of the [`CudaStream`], which counts a reference.
    pub fn to_owned(self) -> CudaStream {
        self.stream.clone()
    }

    /// The stream as a borrowed [`CudaStream`].
    pub fn as_stream(self) -> &'a CudaStream {
        self.stream
    }

    /// The driver's handle.
    #[doc(alias = "rmm::cuda_stream_view::value")]
    pub fn as_raw(self) -> CuStream {
        self.stream.as_raw()
    }

    /// Blocks the calling thread until all work on the stream has completed.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaStreamSynchronize")]
    pub fn synchronize(self) -> Result<(), Error> {
        let driver = self.driver()?;
        // SAFETY: the stream exists while it is borrowed.
        check("cuStreamSynchronize", unsafe { driver.cuStreamSynchronize(self.as_raw()) })
    }

    /// Whether all work on the stream has completed. Never blocks.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaStreamQuery")]
    #[doc(alias = "cuda::stream_ref::is_done")]
    pub fn is_idle(self) -> Result<bool, Error> {
        self.check_context()?;
        // SAFETY: the stream exists while it is borrowed.
        unsafe { CudaStream::is_idle_raw(self.as_raw()) }
    }
}

impl CudaStream {
    /// Borrows the stream. Changes no reference count and calls no driver.
    #[inline]
    pub fn as_stream_ref(&self) -> StreamRef<'_> {
        StreamRef::new(self, self.id_on_this_thread())
    }
}

impl<'a> From<&'a CudaStream> for StreamRef<'a> {
    #[inline]
    fn from(stream: &'a CudaStream) -> Self {
        stream.as_stream_ref()
    }
}

impl<'a> From<&StreamRef<'a>> for StreamRef<'a> {
    #[inline]
    fn from(stream: &StreamRef<'a>) -> Self {
        *stream
    }
}

impl PartialEq for StreamRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for StreamRef<'_> {}

impl PartialEq<CudaStream> for StreamRef<'_> {
    fn eq(&self, other: &CudaStream) -> bool {
        *self == other.as_stream_ref()
    }
}

impl PartialEq<StreamRef<'_>> for CudaStream {
    fn eq(&self, other: &StreamRef<'_>) -> bool {
        self.as_stream_ref() == *other
    }
}

impl fmt::Debug for StreamRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRef")
            .field("id", &self.id)
            .field("kind", &self.kind())
            .field("handle", &self.as_raw())
            .finish()
    }
}
