//! Contexts: the state of a device in this process.

use std::marker::PhantomData;

use rmm_sys::{CuContext, CuResult, Driver, watch};

use crate::Error;
use crate::driver::{
    ask_again, check, context_of_thread, driver_for_drop, driver_in_context, loaded_driver, refused,
};

/// A context that was current once: where streams, events and memory belong.
///
/// A context ends when its device is reset (`cudaDeviceReset`, `cuDevicePrimaryCtxReset`), by
/// whichever library of the process, and with it all that was made in it: memory, streams and
/// events. The next context of the device has the same handle. So this value also knows the
/// driver's id of the context: it is not equal to the next one's, cannot be [entered](Self::enter)
/// any more, and whatever was made in it answers with an error that [says
/// so](Error::is_context_lost) instead of calling the driver.
///
/// Destroy a context that is not a device's primary one only after everything that was made in it
/// is dropped.
///
/// ```
/// use rmm_core::{Context, Device};
///
/// # let machine = rmm_sim::Machine::builder().devices(2).build();
/// # let _entered = machine.enter();
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
    /// Which of the contexts that have had this handle, one after another.
    id: u64,
}

impl Context {
    /// The calling thread's current context; the primary one of device 0 becomes current on a
    /// thread that has none.
    ///
    /// # Errors
    /// If there is no driver or no device; an error with
    /// [`is_context_lost`](Error::is_context_lost) if the thread's current context was reset:
    /// [`Device::make_current`](crate::Device::make_current) makes the next one.
    #[doc(alias = "cuCtxGetCurrent")]
    pub fn current() -> Result<Self, Error> {
        let (driver, handle) = driver_in_context()?;
        Ok(Self { handle, id: id_of(driver, handle)? })
    }

    /// Makes the context current on this thread until the guard is dropped, which restores what was
    /// current before. Costs a short driver call if it is current already. A thread that had none
    /// has none afterwards: no other context is made for it.
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
        // In a context that is lost, calls fail that name none.
        if context_of_thread(driver)? == self.handle {
            return Ok(ContextGuard { pushed: false, thread_bound: PhantomData });
        }
        // SAFETY: the context exists, since the driver told its id above.
        check("cuCtxPushCurrent_v2", unsafe { driver.cuCtxPushCurrent_v2(self.handle) })?;
        Ok(ContextGuard { pushed: true, thread_bound: PhantomData })
    }

    /// Whether the context still exists and is current on this thread, by one short driver call. It
    /// may be so as well if the answer is no: [`check`](Self::check) knows.
    pub(crate) fn is_current(self, driver: &Driver) -> bool {
        // No two contexts of a process have the same, one after another either.
        ask_id(driver, CuContext::NULL) == Ok(self.id)
    }

    /// Whether the context still exists.
    ///
    /// ```
    /// use rmm_core::{Context, Device, current_driver};
    ///
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let context = Context::current()?;
    /// context.check()?;
    /// // SAFETY: nothing of this program uses the device.
    /// let _code = unsafe { current_driver()?.cuDevicePrimaryCtxReset_v2(Device::current()?.as_raw()) };
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

    /// As [`check`](Self::check), and whether calls in the context work: none does after a kernel
    /// has failed in it.
    ///
    /// # Errors
    /// As [`check`](Self::check); what the kernel has failed with.
    pub fn check_works(self) -> Result<(), Error> {
        let _current = self.enter()?;
        // The id of the current context, unlike that of a named one, is refused in a context that
        // is lost.
        id_of(loaded_driver()?, CuContext::NULL).map(|_its_own| ())
    }

    /// Whether the context has ended, for a `Drop`: a question that fails for another reason is
    /// asked once more, and is no sign of that.
    pub(crate) fn has_ended(self) -> bool {
        ask_again(|| self.check()).is_err_and(|error| error.is_context_lost())
    }

    /// The driver's own value.
    pub fn as_raw(self) -> CuContext {
        self.handle
    }
}

/// The driver's id of a context, of the current one for null, or its code.
fn ask_id(driver: &Driver, handle: CuContext) -> Result<u64, CuResult> {
    let mut id = 0;
    // SAFETY: `id` may be written to. The driver refuses the handle of a context that it has
    // destroyed.
    unsafe { driver.cuCtxGetId(handle, &raw mut id) }.result().map(|()| id)
}

/// As [`ask_id`]; the error says so if the context has ended.
fn id_of(driver: &Driver, handle: CuContext) -> Result<u64, Error> {
    ask_id(driver, handle).map_err(|code| match code {
        CuResult::CONTEXT_IS_DESTROYED | CuResult::INVALID_CONTEXT => ended(),
        code => refused("cuCtxGetId", code),
    })
}

#[cold]
fn ended() -> Error {
    watch::note_end_of_context();
    Error::driver("context", CuResult::CONTEXT_IS_DESTROYED).with_message(
        "its device was reset, and all memory, streams and events made before are gone; make the device current again, then new streams, \
         resources and containers",
    )
}

/// Keeps a context current on this thread, see [`Context::enter`]. Guards must be dropped in the
/// reverse order of their making.
#[derive(Debug)]
#[must_use = "the context is current only while the guard lives"]
pub struct ContextGuard {
    /// Whether there is something to restore.
    pushed: bool,
    /// The stack of contexts is the thread's.
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
            let _gone = unsafe { driver.cuCtxPopCurrent_v2(&raw mut popped) };
        }
    }
}
