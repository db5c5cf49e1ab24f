//! CUDA contexts.

use std::marker::PhantomData;

use rmm_sys::{CuContext, CuResult, CuStream, Driver, epoch};

use crate::driver::{
    ask_again, check, context_of_thread, driver_for_drop, driver_in_context, loaded_driver, refused,
};
use crate::{Error, known_contexts};

/// A CUDA context, to which streams, events and memory belong.
///
/// A context ends when any library in the process resets its device (`cudaDeviceReset`,
/// `cuDevicePrimaryCtxReset`), and with it all its memory, streams and events. The next context of
/// the device has the same handle, so this value also keeps the driver's id of the context: it is
/// not equal to the next context, cannot be [entered](Self::enter) any more, and objects made in it
/// fail with an error for which [`is_context_lost`](Error::is_context_lost) holds, instead of
/// calling the driver.
///
/// Destroy a context other than a device's primary one only after everything made in it is dropped.
///
/// ```
/// use rmm_core::{Context, Device};
///
/// # let _machine = rmm_sim::Machine::builder().devices(2).enter();
/// let first = Context::current()?; // device 0's, since this thread had none
/// let _second_is_current = Device::new(1)?.make_current()?;
/// {
///     let _first_is_current = first.enter()?;
///     assert_eq!(Device::current()?.ordinal(), 0);
/// }
/// assert_eq!(Device::current()?.ordinal(), 1);
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "CUcontext")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    handle: CuContext,
    /// The driver's id, which distinguishes successive contexts with the same handle.
    id: u64,
}

impl Context {
    /// The calling thread's current context; the primary one of device 0 becomes current on a
    /// thread that has none.
    ///
    /// # Errors
    /// If there is no driver or no device; an error with
    /// [`is_context_lost`](Error::is_context_lost) if the thread's current context was reset:
    /// [`Device::make_current`](crate::Device::make_current) creates the next one.
    #[doc(alias = "cuCtxGetCurrent")]
    pub fn current() -> Result<Self, Error> {
        let (driver, handle) = driver_in_context()?;
        let context = Self { handle, id: id_of(driver, handle)? };
        known_contexts::note(context);
        Ok(context)
    }

    /// The calling thread's current context, if it has one: makes none.
    #[doc(hidden)]
    pub fn of_thread() -> Option<Self> {
        let driver = loaded_driver().ok()?;
        let mut handle = CuContext::NULL;
        // SAFETY: `handle` may be written to.
        let code = unsafe { driver.cuCtxGetCurrent(&raw mut handle) };
        let id = (code.is_success() && !handle.is_null()).then(|| ask_id(driver, handle).ok());
        id.flatten().map(|id| Self { handle, id })
    }

    /// Makes the context current on this thread until the guard is dropped, which restores the
    /// previous one. Costs a short driver call if it is current already. A thread without a current
    /// context has none afterwards.
    ///
    /// # Errors
    /// If the driver refuses, or the context [has ended](Self::check).
    #[doc(alias = "cuCtxPushCurrent")]
    pub fn enter(self) -> Result<ContextGuard, Error> {
        let driver = loaded_driver()?;
        if self.is_current(driver) {
            return Ok(ContextGuard { pushed: false, thread_bound: PhantomData });
        }
        self.check()?;
        // In a lost context, calls that name no context fail.
        if context_of_thread(driver)? == self.handle {
            return Ok(ContextGuard { pushed: false, thread_bound: PhantomData });
        }
        // SAFETY: the context exists, since the driver returned its id above.
        check("cuCtxPushCurrent_v2", unsafe { driver.cuCtxPushCurrent_v2(self.handle) })?;
        Ok(ContextGuard { pushed: true, thread_bound: PhantomData })
    }

    /// Whether the context still exists and is current on this thread, by one short driver call.
    /// `false` may be wrong: then [`check`](Self::check) decides.
    pub(crate) fn is_current(self, driver: &Driver) -> bool {
        // No two contexts of a process have the same id, not even successive ones.
        ask_id(driver, CuContext::NULL) == Ok(self.id)
    }

    /// Checks that the context still exists.
    ///
    /// ```
    /// use rmm_core::{Context, Device, current_driver};
    ///
    /// # let _machine = rmm_sim::enter();
    /// let context = Context::current()?;
    /// context.check()?;
    /// // SAFETY: nothing of this program uses the device.
    /// let (driver, device) = (current_driver()?, Device::current()?);
    /// let _ignored = unsafe { driver.cuDevicePrimaryCtxReset_v2(device.as_raw()) };
    /// let error = context.check().unwrap_err();
    /// assert!(error.is_context_lost());
    /// let _device = Device::new(0)?.make_current()?; // makes the next one
    /// assert_ne!(Context::current()?, context);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error with [`is_context_lost`](Error::is_context_lost) if it was reset or destroyed, or
    /// another one has its handle.
    #[doc(alias = "cuCtxGetId")]
    pub fn check(self) -> Result<(), Error> {
        match id_of(loaded_driver()?, self.handle) {
            Ok(id) if id == self.id => Ok(()),
            Ok(_another) => Err(ended()),
            Err(error) => Err(error),
        }
    }

    /// Checks that this context still exists, as [`check`](Self::check) does, and that calls in it
    /// work: none does after a kernel has failed in it.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check); the error of the failed kernel.
    pub fn check_works(self) -> Result<(), Error> {
        let _current = self.enter()?;
        // In a lost context the driver refuses the query for the current context, unlike that for a
        // named one.
        id_of(loaded_driver()?, CuContext::NULL).map(|_its_own| ())
    }

    /// Whether the context is known to exist, for a `Drop` of memory that ends with it. A query
    /// that fails is retried once. `true` without a driver, which has nothing to free then.
    #[doc(hidden)]
    pub fn is_there(self) -> bool {
        ask_again(|| self.check()).map_or_else(|error| error.is_driver_unavailable(), |()| true)
    }

    /// Whether the context has ended, for a `Drop`: a query that fails for another reason is
    /// retried once, and does not count as the end.
    pub(crate) fn has_ended(self) -> bool {
        ask_again(|| self.check()).is_err_and(|error| error.is_context_lost())
    }

    /// Whether the context exists: as [`check`](Self::check), of which allocators learn nothing.
    pub(crate) fn exists(self, driver: &Driver) -> Result<bool, Error> {
        match ask_id(driver, self.handle) {
            Ok(id) => Ok(id == self.id),
            Err(CuResult::CONTEXT_IS_DESTROYED | CuResult::INVALID_CONTEXT) => Ok(false),
            Err(code) => Err(refused("cuCtxGetId", code)),
        }
    }

    /// The context of the stream with this handle, whichever is current.
    ///
    /// # Safety
    /// The stream exists.
    pub(crate) unsafe fn of_stream(driver: &Driver, stream: CuStream) -> Result<Self, Error> {
        let mut handle = CuContext::NULL;
        // SAFETY: the stream exists, by the caller's contract, and `handle` may be written to.
        let code = unsafe { driver.cuStreamGetCtx(stream, &raw mut handle) };
        check("cuStreamGetCtx", code)?;
        let context = Self { handle, id: id_of(driver, handle)? };
        known_contexts::note(context);
        Ok(context)
    }

    /// The driver's handle.
    pub fn as_raw(self) -> CuContext {
        self.handle
    }

    /// The handle's address and the driver's id: a key that no other context ever has.
    pub(crate) fn key(self) -> (usize, u64) {
        (self.handle.addr(), self.id)
    }
}

/// The driver's id of a context (the current one for null), or the driver's code.
fn ask_id(driver: &Driver, handle: CuContext) -> Result<u64, CuResult> {
    let mut id = 0;
    // SAFETY: `id` may be written to. The driver refuses the handle of a context that it has
    // destroyed.
    unsafe { driver.cuCtxGetId(handle, &raw mut id) }.result().map(|()| id)
}

/// The driver's id of a context (the current one for null). The error says so if the context has
/// ended.
fn id_of(driver: &Driver, handle: CuContext) -> Result<u64, Error> {
    ask_id(driver, handle).map_err(|code| match code {
        CuResult::CONTEXT_IS_DESTROYED | CuResult::INVALID_CONTEXT => ended(),
        code => refused("cuCtxGetId", code),
    })
}

#[cold]
fn ended() -> Error {
    epoch::note_end_of_context();
    Error::driver("context", CuResult::CONTEXT_IS_DESTROYED).with_message(
        "its device was reset, and all memory, streams and events made before are gone; make the device current again, then new streams, \
         resources and containers",
    )
}

/// Keeps a context current on this thread, see [`Context::enter`]. Drop guards in the reverse order
/// of their creation.
#[derive(Debug)]
#[must_use = "the context is current only while the guard lives"]
pub struct ContextGuard {
    /// Whether the context was pushed and must be popped.
    pushed: bool,
    /// The stack of contexts belongs to the thread.
    thread_bound: PhantomData<*const ()>,
}

impl Drop for ContextGuard {
    fn drop(&mut self) {
        if self.pushed
            && let Some(driver) = driver_for_drop()
        {
            let mut popped = CuContext::NULL;
            // SAFETY: `popped` may be written to. A failure means that the driver is gone: nothing
            // to restore.
            let _ignored = unsafe { driver.cuCtxPopCurrent_v2(&raw mut popped) };
        }
    }
}
