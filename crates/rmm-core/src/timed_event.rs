//! Events that record time.

use std::time::Duration;

use rmm_sys::{CuResult, EVENT_DEFAULT};

use crate::driver::{check, loaded_driver};
use crate::{CudaEvent, Error, StreamRef};

/// An event that records when the device reached it. It costs more than a [`CudaEvent`].
///
/// ```
/// use rmm_core::{CudaStream, TimedEvent};
///
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let (start, end) = (TimedEvent::new()?, TimedEvent::new()?);
/// start.record(&stream)?;
/// // ... work ...
/// end.record(&stream)?;
/// end.synchronize()?;
/// let elapsed = end.elapsed_since(&start)?;
/// assert!(elapsed < std::time::Duration::from_secs(60));
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "cudaEvent_t")]
#[doc(alias = "cuda::timed_event")]
#[derive(Debug)]
pub struct TimedEvent {
    /// # Invariant
    /// It records time.
    event: CudaEvent,
}

impl TimedEvent {
    /// A new event of the current context.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaEventCreate")]
    pub fn new() -> Result<Self, Error> {
        Ok(Self { event: CudaEvent::create(EVENT_DEFAULT)? })
    }

    /// Records the event at the current end of `stream`, as [`CudaEvent::record`].
    ///
    /// # Errors
    /// If the driver refuses, for example because the stream belongs to another context.
    pub fn record<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<(), Error> {
        self.event.record(stream)
    }

    /// Blocks the calling thread until the event has completed, as [`CudaEvent::synchronize`].
    ///
    /// # Errors
    /// If the driver refuses, or the work before the event has failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.event.synchronize()
    }

    /// The event without its time.
    pub fn as_event(&self) -> &CudaEvent {
        &self.event
    }

    /// The device time between `earlier` and this event. The device's clock has a resolution of
    /// about half a microsecond.
    ///
    /// Both must have been recorded, on streams of one device, and have completed:
    /// [`synchronize`](Self::synchronize) with both, or with this one if both are on one stream.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if this event completed
    /// first; [`ErrorKind::Driver`](crate::ErrorKind::Driver) if one of the two was never recorded,
    /// or is not complete yet.
    #[doc(alias = "cudaEventElapsedTime")]
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration, Error> {
        earlier.event.context().check()?;
        self.event.context().check()?;
        let driver = loaded_driver()?;
        let mut milliseconds = 0.0;
        let (start, end) = (earlier.event.as_raw(), self.event.as_raw());
        // SAFETY: `milliseconds` may be written to, and both events exist while they are borrowed.
        let code = unsafe { driver.cuEventElapsedTime_v2(&raw mut milliseconds, start, end) };
        if code == CuResult::NOT_SUPPORTED {
            // Drivers before CUDA 12.8 have the older form alone.
            // SAFETY: as above.
            let code = unsafe { driver.cuEventElapsedTime(&raw mut milliseconds, start, end) };
            check("cuEventElapsedTime", code)?;
        } else {
            check("cuEventElapsedTime_v2", code)?;
        }
        Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).map_err(|error| {
            let message =
                format!("the event given as the earlier one came later: {milliseconds} ms");
            Error::invalid_argument("TimedEvent::elapsed_since", message).with_source(error)
        })
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<TimedEvent>();
};
