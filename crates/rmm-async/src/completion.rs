//! A future that is ready when the work enqueued on a stream is complete.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rmm_core::{Error, StreamRef, fork};

use crate::host_function;
use crate::watcher::{Place, Watched};

/// A future that is ready when the work that was enqueued on a stream before [`completed`] is
/// complete. It may be polled by any executor, on any thread.
///
/// Dropping it cancels nothing.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Completion {
    place: Arc<Place>,
    /// While a task waits.
    watched: Option<Watched>,
}

/// A future that is ready when the work enqueued on `stream` so far is complete.
///
/// Costs an event, and a host function unless the work is complete already. Work that is enqueued
/// on the stream later waits for the host function, which takes some microseconds.
///
/// ```
/// use rmm_async::completed;
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
///
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let vector = DeviceUVector::filled(1u8, 1 << 20, &stream)?;
/// let filled = stream.record_event()?;
/// let done = completed(&stream)?;
/// smol::block_on(done)?;
/// assert!(filled.is_complete()?);
/// # drop(vector);
/// # Ok::<(), rmm_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the stream is being captured,
/// since its work does not run; whatever the driver reports. The future itself returns the error of
/// work that failed, and one with [`is_context_lost`](Error::is_context_lost) if the device was
/// reset.
#[doc(alias = "cuLaunchHostFunc")]
#[doc(alias = "cudaStreamAddCallback")]
pub fn completed<'s>(stream: impl Into<StreamRef<'s>>) -> Result<Completion, Error> {
    let stream = stream.into();
    refuse_captured(stream)?;
    let place = Place { event: stream.record_event()?, signal: Arc::default() };
    if !place.is_complete()? {
        host_function::enqueue(&place.signal, stream)?;
    }
    Ok(Completion { place: Arc::new(place), watched: None })
}

/// Refuses a stream that is being captured.
pub(crate) fn refuse_captured(stream: StreamRef<'_>) -> Result<(), Error> {
    if !stream.is_capturing()? {
        return Ok(());
    }
    let message = "the stream is being captured, so that its work does not run: await it later";
    Err(Error::unsupported("completed", message))
}

impl Completion {
    /// The place in the stream, for buffers that outlive the future.
    pub(crate) fn place(&self) -> &Arc<Place> {
        &self.place
    }
}

impl Future for Completion {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The event decides, since a host function does not run after a fault.
        let mut outcome = self.place.is_complete();
        if matches!(outcome, Ok(false)) {
            if self.place.signal.wait(context.waker()) {
                if self.watched.is_none() {
                    self.watched = Some(Watched::new(&self.place));
                }
                return Poll::Pending;
            }
            // The host function ran in between, so the event is complete, or the query fails.
            outcome = self.place.is_complete();
            debug_assert!(!matches!(outcome, Ok(false)), "the event is before the host function");
        }
        self.watched = None;
        Poll::Ready(outcome.map(drop))
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        // The host function may run much later, or never: it must not keep the task.
        if !fork::is_child() {
            self.place.signal.forget();
        }
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync + Unpin>() {}
    crosses_threads::<Completion>();
};
