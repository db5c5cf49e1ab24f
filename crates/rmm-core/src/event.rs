//! Events.

use std::ffi::c_uint;

use rmm_sys::{CuEvent, CuResult, CuStream, EVENT_DISABLE_TIMING};

use crate::driver::{check, driver_for_drop, driver_in_context, loaded_driver};
use crate::{Context, Error, StreamRef};

/// A mark in a stream that others can wait for. It keeps no time, which makes it the cheapest kind;
/// see [`TimedEvent`](crate::TimedEvent) for one that does.
///
/// A mark that was never [recorded](Self::record) counts as complete, as the driver has it: it
/// proves nothing.
///
/// ```
/// use rmm_core::{CudaEvent, CudaStream};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
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
    /// The context that it was made in. The driver is not called with `handle` once it has ended.
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

    /// Marks the current end of `stream`; an earlier mark of this event is forgotten, except by
    /// those who wait for it.
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

    /// Marks the current end of the stream with this handle.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    ///
    /// # Safety
    /// The handle names a stream that exists now and until this call returns.
    pub unsafe fn record_raw(&self, stream: CuStream) -> Result<(), Error> {
        let driver = loaded_driver()?;
        if !self.context.is_current(driver) {
            let (_, current) = driver_in_context()?;
            self.context.check()?;
            // The handles of the default streams mean those of the current context. Other handles
            // name their context themselves, and the driver refuses a stream and an event that do
            // not belong together.
            if matches!(stream, CuStream::NULL | CuStream::LEGACY | CuStream::PER_THREAD)
                && current != self.context.as_raw()
            {
                return Err(Error::invalid_argument(
                    "CudaEvent::record",
                    "another device than the event's is current",
                ));
            }
        }
        // SAFETY: `self.handle` is an event of ours; the stream exists, by the caller's contract.
        check("cuEventRecord", unsafe { driver.cuEventRecord(self.handle, stream) })
    }

    /// Whether all work before the mark is done. Never waits.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaEventQuery")]
    pub fn is_complete(&self) -> Result<bool, Error> {
        self.context.check()?;
        let driver = loaded_driver()?;
        // SAFETY: `self.handle` is an event of ours.
        match unsafe { driver.cuEventQuery(self.handle) } {
            CuResult::NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Waits on this thread until all work before the mark is done.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaEventSynchronize")]
    pub fn synchronize(&self) -> Result<(), Error> {
        self.context.check()?;
        let driver = loaded_driver()?;
        // SAFETY: `self.handle` is an event of ours.
        check("cuEventSynchronize", unsafe { driver.cuEventSynchronize(self.handle) })
    }

    /// The context that the event was made in: it can mark streams of that one alone.
    ///
    /// ```
    /// use rmm_core::{Context, CudaEvent};
    ///
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// assert_eq!(CudaEvent::new()?.context(), Context::current()?);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    pub fn context(&self) -> Context {
        self.context
    }

    /// The driver's own value.
    pub fn as_raw(&self) -> CuEvent {
        self.handle
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if let Some(driver) = driver_for_drop()
            && !self.context.has_ended()
        {
            // SAFETY: `self.handle` is an event of ours, and this is its last use. Waits for it
            // that are already enqueued keep what they need. A failure means that the driver is
            // gone: nothing is left to free.
            let _gone = unsafe { driver.cuEventDestroy_v2(self.handle) };
        }
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<CudaEvent>();
};
