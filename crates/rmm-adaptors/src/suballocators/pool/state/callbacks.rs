//! Functions of the program that a pool calls.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rmm_core::fork;

/// Functions that are registered, the oldest first.
pub(crate) struct Callbacks<F: ?Sized> {
    next: AtomicU64,
    /// Lock order: a leaf. No function runs while it is held.
    registered: Mutex<Vec<(u64, Arc<F>)>>,
}

impl<F: ?Sized> Default for Callbacks<F> {
    fn default() -> Self {
        Self { next: AtomicU64::new(0), registered: Mutex::new(Vec::new()) }
    }
}

impl<F: ?Sized> fmt::Debug for Callbacks<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").field("count", &self.registered().len()).finish()
    }
}

impl<F: ?Sized> Callbacks<F> {
    fn registered(&self) -> MutexGuard<'_, Vec<(u64, Arc<F>)>> {
        fork::lock(&self.registered)
    }

    /// All functions.
    pub(crate) fn all(&self) -> Vec<Arc<F>> {
        self.registered().iter().map(|(_, function)| Arc::clone(function)).collect()
    }

    /// Adds one, until the registration is dropped.
    pub(crate) fn register(self: &Arc<Self>, function: Arc<F>) -> Registration<F> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.registered().push((number, function));
        Registration { callbacks: Arc::downgrade(self), number }
    }
}

/// Keeps a function registered, at most until the pool's end. A call that another thread has begun
/// may go on after the drop.
pub(crate) struct Registration<F: ?Sized> {
    callbacks: Weak<Callbacks<F>>,
    number: u64,
}

impl<F: ?Sized> fmt::Debug for Registration<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<F: ?Sized> Drop for Registration<F> {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        let Some(callbacks) = self.callbacks.upgrade() else { return };
        let mut registered = callbacks.registered();
        let place = registered.iter().position(|(known, _)| *known == self.number);
        // Its captured values are dropped without the lock.
        let removed = place.map(|place| registered.remove(place));
        drop(registered);
        drop(removed);
    }
}
