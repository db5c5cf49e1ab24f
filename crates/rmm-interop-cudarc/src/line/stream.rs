//! Streams that both libraries know.

use std::ops::Deref;
use std::sync::Arc;

use rmm_core::{CudaStream, Error, StreamRef};
use rmm_sys::{CuContext, CuResult, CuStream};

use super::cudarc::driver::{CudaStream as TheirStream, DriverError, SyncOnDrop};

/// One stream, known to both libraries: it derefs to cudarc's, and converts to a [`StreamRef`].
///
/// It keeps cudarc's stream, and so do containers on it: they may outlive every handle of the
/// program's to it.
///
/// ```
/// # use cudarc_0_19 as cudarc;
/// use cudarc::driver::CudaContext;
/// use rmm_interop_cudarc::Stream;
///
/// # rmm_sim_cuda::load().unwrap();
/// # let _machine = rmm_sim::enter();
/// let theirs = CudaContext::new(0)?.new_stream()?;
/// // SAFETY: the stream is not captured.
/// let (first, second) = unsafe { (Stream::adopt(&theirs)?, Stream::adopt(&theirs)?) };
/// assert_eq!(first.ours(), second.ours());
/// first.synchronize()?; // cudarc's
/// first.ours().synchronize()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    ours: CudaStream,
    /// # Invariant
    /// `ours` is the same stream, in this one's context.
    theirs: Arc<TheirStream>,
}

impl Stream {
    /// Adopts a stream of cudarc's. Adopting it again gives an equal stream, for as long as one of
    /// them, or a container on it, exists; a new stream with the handle of an old one is another.
    ///
    /// cudarc's legacy and per-thread default streams become those of this library.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// If the stream is ever captured, the graph is launched only while the memory that its work
    /// uses is allocated, and in order with all other uses of that memory: containers know nothing
    /// of graph launches, and cudarc launches graphs by a safe call. A capture of it does not begin
    /// or end on one thread during a call that another thread makes with it.
    #[doc(alias = "wrap_borrowed_stream")]
    pub unsafe fn adopt(theirs: &Arc<TheirStream>) -> Result<Self, Error> {
        let _before = EnteredContext::enter(theirs)?;
        let handle = CuStream::from_raw(theirs.cu_stream().cast());
        // SAFETY: the stream exists for as long as cudarc's handle, which is the owner; its context
        // is current. What concerns captures is the caller's contract.
        let ours =
            unsafe { CudaStream::adopt_owned_by(handle, Arc::<TheirStream>::clone(theirs)) }?;
        Ok(Self { ours, theirs: Arc::clone(theirs) })
    }

    /// This library's handle to the stream.
    pub fn ours(&self) -> &CudaStream {
        &self.ours
    }

    /// cudarc's handle to the stream.
    pub fn theirs(&self) -> &Arc<TheirStream> {
        &self.theirs
    }
}

impl Stream {
    /// Orders work that cudarc is about to enqueue on a stream, with memory that was lent to this
    /// one; what it returns is dropped once the work is enqueued.
    pub(super) fn order_for<'a>(&self, other: &'a TheirStream) -> SyncOnDrop<'a> {
        if *other == *self.theirs {
            // The container recorded the use on this stream: there is nothing to do afterwards.
            return SyncOnDrop::Sync(None);
        }
        // The container knows nothing of the other stream, which waits for the one that it knows;
        // and the host waits for the work. If no event can be made, the host waits before it, too.
        if other.join(&self.theirs).is_err() {
            other.context().record_err(self.theirs.synchronize());
        }
        SyncOnDrop::sync_stream(other)
    }
}

impl Deref for Stream {
    type Target = Arc<TheirStream>;

    fn deref(&self) -> &Arc<TheirStream> {
        &self.theirs
    }
}

impl<'s> From<&'s Stream> for StreamRef<'s> {
    fn from(stream: &'s Stream) -> Self {
        (&stream.ours).into()
    }
}

/// cudarc's error as this library's.
pub(super) fn error(origin: &'static str, error: DriverError) -> Error {
    Error::driver(origin, CuResult(error.0 as u32))
}

/// Makes the context of a stream current until it is dropped; then what was current before.
struct EnteredContext {
    before: CuContext,
}

impl EnteredContext {
    fn enter(stream: &TheirStream) -> Result<Self, Error> {
        let mut before = CuContext::NULL;
        // SAFETY: `before` may be written to.
        let code = unsafe { rmm_core::current_driver()?.cuCtxGetCurrent(&raw mut before) };
        rmm_core::check("cuCtxGetCurrent", code)?;
        stream.context().bind_to_thread().map_err(|code| error("Stream::adopt", code))?;
        Ok(Self { before })
    }
}

impl Drop for EnteredContext {
    fn drop(&mut self) {
        if let Ok(driver) = rmm_core::current_driver() {
            // SAFETY: it was current, so it is a context, or null for none. If it has ended since,
            // the driver refuses it.
            let _ignored = unsafe { driver.cuCtxSetCurrent(self.before) };
        }
    }
}
