//! CUDA events.

use std::ffi::c_uint;

use rmm_sys::{CuEvent, CuResult, CuStream, EVENT_DISABLE_TIMING};

use crate::driver::{check, driver_for_drop, driver_in_context, loaded_driver};
use crate::{Context, Error, StreamRef};

/// An event that streams and threads can wait for. It records no time, which makes it the cheapest
/// kind; see [`TimedEvent`](crate::TimedEvent) for one that does.
///
/// An event that was never [recorded](Self::record) counts as complete, as in the driver.
///
/// ```
/// use rmm_core::{CudaEvent, CudaStream};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let (first, second) = (CudaStream::new()?, CudaStream::new()?);
/// let event = CudaEvent::new()?;
/// event.record(&first)?; // everything enqueued on `first` so far ...
/// second.wait(&event)?; // ... is done before whatever is enqueued on `second` from now on
/// event.synchronize()?;
/// assert!(event.is_complete()?);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cudaEvent_t")]
#[doc(alias = "cuda::event")]
#[derive(Debug)]
pub struct CudaEvent {
    handle: CuEvent,
    /// The context that it was created in. The driver is not called with `handle` after the context
    /// has ended.
    context: Context,
}

impl CudaEvent {
    /// A new event of the current context.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaEventCreateWithFlags")]
    pub fn new() -> Result<Self, Error> {
        Self::with_flags(EVENT_DISABLE_TIMING)
    }

    /// A new event of the current context with the driver's own flags.
    pub(crate) fn with_flags(flags: c_uint) -> Result<Self, Error> {
        let context = Context::current()?;
        let driver = loaded_driver()?;
        let mut handle = CuEvent::NULL;
        // SAFETY: `handle` may be written to.
        check("cuEventCreate", unsafe { driver.cuEventCreate(&raw mut handle, flags) })?;
        Ok(Self { handle, context })
    }

    /// Records the event at the current end of `stream`. Replaces an earlier record; waits that are
    /// already enqueued keep the earlier one.
    ///
    /// # Errors
    /// If the driver refuses, for example because the stream belongs to another context;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a default stream while
    /// another context than the event's is current.
    #[doc(alias = "cudaEventRecord")]
    pub fn record<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<(), Error> {
        let stream = stream.into();
        // The event's own context is checked below.
        if stream.own_context() != Some(self.context) {
            stream.check_context()?;
        }
        // SAFETY: a `StreamRef` names a stream that exists while it is borrowed, as long as its
        // context does.
        unsafe { self.record_raw(stream.as_raw()) }
    }

    /// Records the event at the current end of the stream with this handle.
    ///
    /// # Errors
    /// The errors of [`record`](Self::record).
    ///
    /// # Safety
    /// The handle names a stream that exists now and until this call returns.
    pub unsafe fn record_raw(&self, stream: CuStream) -> Result<(), Error> {
        let driver = loaded_driver()?;
        if !self.context.is_current(driver) {
            let (_, current) = driver_in_context()?;
            self.context.check()?;
            // The handles of the default streams refer to the current context. Other handles belong
            // to one context, and the driver refuses a stream and an event of different contexts.
            if matches!(stream, CuStream::NULL | CuStream::LEGACY | CuStream::PER_THREAD)
                && current != self.context.as_raw()
            {
                return Err(Error::invalid_argument(
                    "CudaEvent::record",
                    "another device than the event's is current",
                ));
            }
        }
        // SAFETY: `self.handle` is this value's event; the stream exists, by the caller's contract.
        check("cuEventRecord", unsafe { driver.cuEventRecord(self.handle, stream) })
    }

    /// Records the event behind all work of its context: of all streams, also of those that were
    /// destroyed with work in progress and of threads that have ended. Orders no stream after
    /// another. Drivers from CUDA 12.5.
    ///
    /// ```
    /// use rmm_core::{CudaEvent, CudaStream};
    ///
    /// # let _machine = rmm_sim::enter();
    /// let [first, second] = [CudaStream::new()?, CudaStream::non_blocking()?];
    /// let event = CudaEvent::new()?;
    /// drop(first); // its work goes on
    /// event.record_in_context()?;
    /// second.wait(&event)?; // behind the work of both
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the driver refuses; [`CuResult::NOT_SUPPORTED`] from older drivers. While a stream of the
    /// context is captured the driver refuses, and invalidates the capture.
    #[doc(alias = "cuCtxRecordEvent")]
    pub fn record_in_context(&self) -> Result<(), Error> {
        self.context.check()?;
        let driver = loaded_driver()?;
        // SAFETY: `self.handle` is this value's event, of `self.context`, which exists.
        let code = unsafe { driver.cuCtxRecordEvent(self.context.as_raw(), self.handle) };
        check("cuCtxRecordEvent", code)
    }

    /// Whether all work before the event has completed. Never blocks.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaEventQuery")]
    pub fn is_complete(&self) -> Result<bool, Error> {
        self.context.check()?;
        let driver = loaded_driver()?;
        // SAFETY: `self.handle` is this value's event, which exists until it is dropped.
        match unsafe { driver.cuEventQuery(self.handle) } {
            CuResult::NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Blocks the calling thread until all work before the event has completed.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaEventSynchronize")]
    pub fn synchronize(&self) -> Result<(), Error> {
        self.context.check()?;
        let driver = loaded_driver()?;
        // SAFETY: `self.handle` is this value's event, which exists until it is dropped.
        check("cuEventSynchronize", unsafe { driver.cuEventSynchronize(self.handle) })
    }

    /// The context that the event was created in: it can be recorded on streams of this context
    /// only.
    ///
    /// ```
    /// use rmm_core::{Context, CudaEvent};
    ///
    /// # let _machine = rmm_sim::enter();
    /// assert_eq!(CudaEvent::new()?.context(), Context::current()?);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    pub fn context(&self) -> Context {
        self.context
    }

    /// The driver's handle.
    pub fn as_raw(&self) -> CuEvent {
        self.handle
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if let Some(driver) = driver_for_drop()
            && !self.context.has_ended()
        {
            // SAFETY: `self.handle` is this value's event, and this is its last use. The driver
            // keeps what enqueued waits need. A failure means that the driver is gone: nothing is
            // left to free.
            let _ignored = unsafe { driver.cuEventDestroy_v2(self.handle) };
        }
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<CudaEvent>();
};
