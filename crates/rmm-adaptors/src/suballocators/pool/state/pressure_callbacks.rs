//! The callbacks of a program for when a request is about to fail for lack of memory.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rmm_core::{Error, StreamId, fork};

/// A request that is about to fail for lack of memory, see
/// [`on_pressure`](crate::PoolMemoryResource::on_pressure).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Pressure<'a> {
    /// The bytes that were requested, rounded up as the pool does.
    pub requested: u64,
    /// The fewest bytes that have to be freed: to this pool, or to the device if the pool's own
    /// limit leaves room. More if memory is fragmented.
    pub missing: u64,
    /// The stream of the request; `None` for one that any stream may use.
    pub stream: Option<StreamId>,
    /// The error that the request fails with otherwise.
    pub error: &'a Error,
}

/// Returns whether it has freed memory.
pub(crate) type Callback = dyn Fn(&Pressure<'_>) -> bool + Send + Sync;

/// The callbacks of a pool, the oldest first.
#[derive(Default)]
pub(crate) struct PressureCallbacks {
    next: AtomicU64,
    /// Lock order: a leaf. No callback runs while it is held.
    registered: Mutex<Vec<(u64, Arc<Callback>)>>,
}

impl fmt::Debug for PressureCallbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PressureCallbacks").field("count", &self.registered().len()).finish()
    }
}

impl PressureCallbacks {
    fn registered(&self) -> MutexGuard<'_, Vec<(u64, Arc<Callback>)>> {
        fork::lock(&self.registered)
    }

    /// All callbacks.
    pub(crate) fn callbacks(&self) -> Vec<Arc<Callback>> {
        self.registered().iter().map(|(_, callback)| Arc::clone(callback)).collect()
    }

    /// Adds one, until the guard is dropped.
    pub(crate) fn register(self: &Arc<Self>, callback: Arc<Callback>) -> PressureCallback {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.registered().push((number, callback));
        PressureCallback { callbacks: Arc::clone(self), number }
    }
}

/// Keeps a callback of [`on_pressure`](crate::PoolMemoryResource::on_pressure) registered. A call
/// that another thread has begun may go on after the drop.
#[derive(Debug)]
#[must_use = "the callback is registered only while the guard lives"]
pub struct PressureCallback {
    callbacks: Arc<PressureCallbacks>,
    number: u64,
}

impl Drop for PressureCallback {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        let mut registered = self.callbacks.registered();
        let place = registered.iter().position(|(number, _)| *number == self.number);
        // Its captured values are dropped without the lock.
        let removed = place.map(|place| registered.remove(place));
        drop(registered);
        drop(removed);
    }
}
