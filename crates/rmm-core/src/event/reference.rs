//! A borrowed event, of this library or of another.

use std::marker::PhantomData;

use rmm_sys::{CuEvent, CuResult};

use crate::driver::{check, loaded_driver};
use crate::{Context, CudaEvent, Error, TimedEvent};

/// A borrowed event that streams and threads can wait for: a [`CudaEvent`], a [`TimedEvent`], or
/// one that other code created, such as NCCL, cuDNN or PyTorch.
///
/// ```
/// use rmm_core::{CudaEvent, CudaStream, EventRef};
///
/// # let _machine = rmm_sim::enter();
/// # let (theirs, ours) = (CudaStream::new()?, CudaStream::new()?);
/// # let event = CudaEvent::new()?;
/// # event.record(&theirs)?;
/// let handle = event.as_raw(); // from another library, which has recorded it
/// // SAFETY: the event exists until the other library destroys it, after this program is done.
/// let foreign = unsafe { EventRef::from_raw(handle) };
/// ours.wait(foreign)?; // what is enqueued on `ours` from here on comes after it
/// foreign.synchronize()?;
/// assert!(foreign.is_complete()?);
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "cuda::event_ref")]
#[doc(alias = "cudaEvent_t")]
#[derive(Clone, Copy, Debug)]
pub struct EventRef<'event> {
    /// # Invariant
    /// It names an event that exists for `'event`, as long as its context does.
    handle: CuEvent,
    /// The context of an event of this library. The driver is not called with `handle` after the
    /// context has ended. Of another library's event the context is not known.
    context: Option<Context>,
    event: PhantomData<&'event ()>,
}

impl EventRef<'_> {
    /// The event with this handle.
    ///
    /// # Safety
    /// It exists for the lifetime of the result, and so does its context.
    pub const unsafe fn from_raw(handle: CuEvent) -> Self {
        Self { handle, context: None, event: PhantomData }
    }

    /// Whether all work before the event has completed. Never blocks.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaEventQuery")]
    #[doc(alias = "cuda::event_ref::is_done")]
    pub fn is_complete(self) -> Result<bool, Error> {
        self.check_context()?;
        let driver = loaded_driver()?;
        // SAFETY: the event exists, by the invariant of `handle` and the check above.
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
    #[doc(alias = "cuda::event_ref::sync")]
    pub fn synchronize(self) -> Result<(), Error> {
        self.check_context()?;
        let driver = loaded_driver()?;
        // SAFETY: the event exists, by the invariant of `handle` and the check above.
        check("cuEventSynchronize", unsafe { driver.cuEventSynchronize(self.handle) })
    }

    /// The driver's handle.
    pub fn as_raw(self) -> CuEvent {
        self.handle
    }

    /// The context that the event was created in; `None` of another library's.
    pub(crate) fn context(self) -> Option<Context> {
        self.context
    }

    /// Fails if the context has ended.
    pub(crate) fn check_context(self) -> Result<(), Error> {
        self.context.map_or(Ok(()), Context::check)
    }
}

impl<'event> From<&'event CudaEvent> for EventRef<'event> {
    fn from(event: &'event CudaEvent) -> Self {
        let context = Some(event.context());
        Self { handle: event.as_raw(), context, event: PhantomData }
    }
}

impl<'event> From<&'event TimedEvent> for EventRef<'event> {
    fn from(event: &'event TimedEvent) -> Self {
        event.as_event().into()
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<EventRef<'_>>();
};
