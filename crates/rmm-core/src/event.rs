//! CUDA events.

mod reference;

use std::ffi::c_uint;
use std::mem::ManuallyDrop;

use rmm_sys::{
    CuEvent, CuIpcEventHandle, CuStream, EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING,
    EVENT_INTERPROCESS,
};

use crate::driver::{check, driver_for_drop, driver_in_context, loaded_driver};
use crate::{Context, Error, StreamRef};

pub use reference::EventRef;

bitflags::bitflags! {
    /// How an event behaves; without flags, a thread that waits for it spins.
    #[doc(alias = "cuda::event_flags")]
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct EventFlags: u32 {
        /// A thread in [`CudaEvent::synchronize`] sleeps instead of spinning: it wakes some
        /// microseconds later, and leaves the processor to others.
        #[doc(alias = "cudaEventBlockingSync")]
        const BLOCKING_SYNC = EVENT_BLOCKING_SYNC;
        /// Other processes can wait for it: [`CudaEvent::export`].
        #[doc(alias = "cudaEventInterprocess")]
        const INTERPROCESS = EVENT_INTERPROCESS;
    }
}

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
        Self::with_flags(EventFlags::empty())
    }

    /// A new event of the current context.
    ///
    /// ```
    /// use rmm_core::{CudaEvent, CudaStream, EventFlags};
    ///
    /// # let _machine = rmm_sim::enter();
    /// let event = CudaEvent::with_flags(EventFlags::BLOCKING_SYNC)?;
    /// event.record(&CudaStream::new()?)?;
    /// event.synchronize()?; // the thread sleeps
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the driver refuses; the software device refuses [`EventFlags::INTERPROCESS`].
    #[doc(alias = "cudaEventCreateWithFlags")]
    pub fn with_flags(flags: EventFlags) -> Result<Self, Error> {
        Self::create(flags.bits() | EVENT_DISABLE_TIMING)
    }

    /// A new event of the current context with the driver's own flags.
    pub(crate) fn create(flags: c_uint) -> Result<Self, Error> {
        let context = Context::current()?;
        let driver = loaded_driver()?;
        let mut handle = CuEvent::NULL;
        // SAFETY: `handle` may be written to.
        check("cuEventCreate", unsafe { driver.cuEventCreate(&raw mut handle, flags) })?;
        Ok(Self { handle, context })
    }

    /// Takes over an event that other code created, in the current context: this value destroys it.
    ///
    /// # Errors
    /// If there is no driver; then the caller still owns the event.
    ///
    /// # Safety
    /// `handle` names an event of the current context, which only this value destroys from now on.
    #[doc(alias = "cuda::event::from_native_handle")]
    pub unsafe fn from_raw(handle: CuEvent) -> Result<Self, Error> {
        Ok(Self { handle, context: Context::current()? })
    }

    /// Gives the event away: the caller destroys it.
    ///
    /// ```
    /// use rmm_core::CudaEvent;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let handle = CudaEvent::new()?.into_raw();
    /// // SAFETY: the event is of the current context, and only what is made here destroys it.
    /// let event = unsafe { CudaEvent::from_raw(handle) }?;
    /// assert_eq!(event.as_raw(), handle);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[doc(alias = "cuda::event::release")]
    pub fn into_raw(self) -> CuEvent {
        ManuallyDrop::new(self).handle
    }

    /// What another process [imports](Self::import) to wait for this event, which has to have
    /// [`EventFlags::INTERPROCESS`]. This event must outlive all uses of the imported one.
    ///
    /// # Errors
    /// If the driver refuses, as it does for an event without the flag.
    #[doc(alias = "cudaIpcGetEventHandle")]
    pub fn export(&self) -> Result<CuIpcEventHandle, Error> {
        self.context.check()?;
        let driver = loaded_driver()?;
        let mut exported = CuIpcEventHandle { reserved: [0; 64] };
        // SAFETY: `exported` may be written to, and `self.handle` is this value's event.
        let code = unsafe { driver.cuIpcGetEventHandle(&raw mut exported, self.handle) };
        check("cuIpcGetEventHandle", code)?;
        Ok(exported)
    }

    /// An event that another process [exported](Self::export), in the current context. Records of
    /// either process count for both.
    ///
    /// # Errors
    /// If the driver refuses: the handle is of this process, or of an event that was destroyed.
    ///
    /// # Safety
    /// The bytes are what [`export`](Self::export) returned in another process, and the event there
    /// outlives the result and all uses of it: what the driver does otherwise is undefined.
    #[doc(alias = "cudaIpcOpenEventHandle")]
    pub unsafe fn import(exported: CuIpcEventHandle) -> Result<Self, Error> {
        let context = Context::current()?;
        let driver = loaded_driver()?;
        let mut handle = CuEvent::NULL;
        // SAFETY: `handle` may be written to, and the bytes are of an event, by the caller's
        // contract.
        let code = unsafe { driver.cuIpcOpenEventHandle(&raw mut handle, exported) };
        check("cuIpcOpenEventHandle", code)?;
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
    /// If the driver refuses; [`CuResult::NOT_SUPPORTED`](rmm_sys::CuResult::NOT_SUPPORTED) from
    /// older drivers. While a stream of the context is captured the driver refuses, and invalidates
    /// the capture.
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
        EventRef::from(self).is_complete()
    }

    /// Blocks the calling thread until all work before the event has completed.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaEventSynchronize")]
    pub fn synchronize(&self) -> Result<(), Error> {
        EventRef::from(self).synchronize()
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
