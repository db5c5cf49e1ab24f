//! The state that a future and the host function that wakes its task share.

use rmm_core::fork;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

/// Whether a place in a stream was reached, and the task that waits for it. It owns nothing whose
/// destructor calls the driver, since a host function may be the last to refer to it.
#[derive(Debug, Default)]
pub(crate) struct Signal(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_reached: bool,
    waker: Option<Waker>,
}

impl Signal {
    /// Lock order: leaf. No driver call and no waker runs while it is held.
    fn lock(&self) -> MutexGuard<'_, State> {
        fork::lock(&self.0)
    }

    /// Stores the waker of the task, unless the place was reached already. Returns whether the task
    /// waits.
    pub(crate) fn wait(&self, waker: &Waker) -> bool {
        let mut state = self.lock();
        if state.is_reached {
            return false;
        }
        if state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return true;
        }
        let former = state.waker.replace(waker.clone());
        drop(state);
        // Not under the lock: it may drop a task.
        drop(former);
        true
    }

    /// Forgets the task.
    pub(crate) fn forget(&self) {
        let waker = self.lock().waker.take();
        drop(waker);
    }

    /// Wakes the task that waits, if any; not in a host function.
    pub(crate) fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            catch(|| waker.wake());
        }
    }

    /// Marks the place as reached, and returns the waker of the task that waits, if any.
    pub(crate) fn reach(&self) -> Option<Waker> {
        let mut state = self.lock();
        state.is_reached = true;
        state.waker.take()
    }
}

/// Runs code of an executor or a task, whose panics go no further.
pub(crate) fn catch(theirs: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(theirs)) {
        // The destructor of the payload may panic, too.
        let _leaked = Box::leak(payload);
    }
}
