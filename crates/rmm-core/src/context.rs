//! Contexts: the state of a device in this process.

use std::marker::PhantomData;

use rmm_sys::CuContext;

use crate::Error;
use crate::driver::{check, context_of_thread, current_driver, driver_for_drop, driver_in_context};

/// A context that was current once: where streams, events and memory belong.
///
/// Whoever destroys a context that is not a device's primary one must first drop all that was made in it.
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
pub struct Context(CuContext);

impl Context {
    /// The calling thread's current context; the primary one of device 0 becomes current on a thread that has none.
    ///
    /// # Errors
    /// If there is no driver or no device.
    #[doc(alias = "cuCtxGetCurrent")]
    pub fn current() -> Result<Self, Error> {
        Ok(Self(driver_in_context()?.1))
    }

    /// Makes the context current on this thread until the guard is dropped, which restores what was current before. Costs
    /// next to nothing if it is current already. A thread that had none has none afterwards: no other context is made for it.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cuCtxPushCurrent")]
    pub fn enter(self) -> Result<ContextGuard, Error> {
        let driver = current_driver()?;
        if context_of_thread(driver)? == self.0 {
            return Ok(ContextGuard { pushed: false, thread_bound: PhantomData });
        }
        // SAFETY: the context was current once and is not destroyed while something that knows it is used.
        check("cuCtxPushCurrent_v2", unsafe { driver.cuCtxPushCurrent_v2(self.0) })?;
        Ok(ContextGuard { pushed: true, thread_bound: PhantomData })
    }

    /// The driver's own value.
    pub fn as_raw(self) -> CuContext {
        self.0
    }
}

/// Keeps a context current on this thread, see [`Context::enter`]. Guards must be dropped in the reverse order of their making.
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
            // SAFETY: `popped` may be written to. A failure means that the driver is gone: nothing to restore.
            let _gone = unsafe { driver.cuCtxPopCurrent_v2(&raw mut popped) };
        }
    }
}
