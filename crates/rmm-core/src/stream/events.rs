//! Order between streams: events recorded on a stream, and waits for them.

use super::StreamRef;
use crate::driver::check;
use crate::{Context, CudaEvent, Error, EventRef, TimedEvent};

impl StreamRef<'_> {
    /// Records a new event at the stream's current end.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaEventRecord")]
    pub fn record_event(self) -> Result<CudaEvent, Error> {
        // An event can be recorded on streams of its own context only.
        let _entered = self.own_context().map(Context::enter).transpose()?;
        let event = CudaEvent::new()?;
        event.record(self)?;
        Ok(event)
    }

    /// Records a new timed event at the stream's current end.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cuda::stream_ref::record_timed_event")]
    pub fn record_timed_event(self) -> Result<TimedEvent, Error> {
        let _entered = self.own_context().map(Context::enter).transpose()?;
        let event = TimedEvent::new()?;
        event.record(self)?;
        Ok(event)
    }

    /// Makes all work enqueued from now on wait for `event`, a [`CudaEvent`], a [`TimedEvent`] or
    /// one of another library. The calling thread does not wait.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaStreamWaitEvent")]
    pub fn wait<'e>(self, event: impl Into<EventRef<'e>>) -> Result<(), Error> {
        let (driver, event) = (self.driver()?, event.into());
        if self.own_context() != event.context() {
            event.check_context()?;
        }
        // SAFETY: the stream exists while it is borrowed, and so does the event.
        check("cuStreamWaitEvent", unsafe {
            driver.cuStreamWaitEvent(self.as_raw(), event.as_raw(), 0)
        })
    }

    /// Makes all work enqueued from now on wait for the work enqueued on `earlier` so far. The
    /// calling thread does not wait. Costs an event, or nothing if the two are the same stream.
    ///
    /// ```
    /// use rmm_core::CudaStream;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let (producer, consumer) = (CudaStream::new()?, CudaStream::new()?);
    /// // ... work on `producer` ...
    /// consumer.wait_for(&producer)?;
    /// // ... work on `consumer` that uses its results ...
    /// consumer.synchronize()?;
    /// assert!(producer.is_idle()?);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cuda::stream_ref::wait")]
    pub fn wait_for<'s>(self, earlier: impl Into<StreamRef<'s>>) -> Result<(), Error> {
        let earlier = earlier.into();
        if self == earlier { Ok(()) } else { self.wait(&earlier.record_event()?) }
    }
}
