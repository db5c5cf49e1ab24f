//! A future that owns what the device uses.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use rmm_core::{Error, process_is_exiting};

use crate::completion::Completion;
use crate::watcher::abandon;

/// A [`Completion`] that keeps a value until the work is complete, and yields it:
/// [`Completion::keep`].
///
/// If it is dropped before, the value is dropped later, on another thread, when the work is
/// complete: [`wait_for_abandoned`](crate::wait_for_abandoned).
#[must_use = "a future does nothing unless it is awaited"]
pub struct Keep<B: Send + 'static> {
    completion: Completion,
    /// `None` once it is yielded.
    value: Option<B>,
}

impl Completion {
    /// Keeps `value` until the work is complete, and yields it then: the buffers of the work, for
    /// example. If the future is dropped before, the value lives until the work is complete.
    ///
    /// ```
    /// use rmm_async::completed;
    /// use rmm_containers::PinnedVec;
    /// use rmm_core::CudaStream;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// let staging = PinnedVec::from_slice(&[1.0f32, 2.0])?;
    /// let vector = staging.device_slice().to_device(&stream)?;
    /// // Without `keep`, dropping `staging` here would block the thread until the copy is made.
    /// let staging = smol::block_on(completed(&stream)?.keep(staging))?;
    /// assert_eq!((staging.len(), vector.len()), (2, 2));
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    pub fn keep<B: Send + 'static>(self, value: B) -> Keep<B> {
        Keep { completion: self, value: Some(value) }
    }
}

/// Nothing in it is pinned.
impl<B: Send + 'static> Unpin for Keep<B> {}

impl<B: Send + 'static> Future for Keep<B> {
    type Output = Result<B, Error>;

    /// # Panics
    /// If the value was yielded before.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.completion).poll(context).map(|outcome| {
            // After an error, the drop of this future decides when the value is dropped.
            outcome.map(|()| self.value.take().expect("a future is not polled after it was ready"))
        })
    }
}

impl<B: Send + 'static> Drop for Keep<B> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        if process_is_exiting() {
            // The driver may be gone. The system frees all memory.
            Box::leak(Box::new(value));
        } else if !self.completion.place().is_over() {
            abandon(self.completion.place().clone(), Box::new(value));
        }
    }
}

impl<B: Send + 'static> fmt::Debug for Keep<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keep").field("completion", &self.completion).finish_non_exhaustive()
    }
}
