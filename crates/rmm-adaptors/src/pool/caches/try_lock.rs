//! A lock that nobody queues for: whoever finds it taken does something else, or comes back.
//!
//! It costs one atomic read-modify-write where a mutex, which has to wake others at its end, costs two.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

#[cfg(rmm_loom)]
use loom::{sync::atomic, thread::yield_now};
#[cfg(not(rmm_loom))]
use std::{sync::atomic, thread::yield_now};

use atomic::{AtomicBool, Ordering};

/// Looks at a taken lock before the processor is left to others.
#[cfg(not(rmm_loom))]
const SPINS: u32 = 64;

/// A value that one thread at a time may use, for a few instructions.
pub(super) struct TryLock<T> {
    /// # Invariant
    /// Set for as long as a [`TryGuard`] of this lock exists.
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

/// The use of a [`TryLock`]'s value, until it is dropped.
#[derive(Debug)]
pub(super) struct TryGuard<'a, T>(&'a TryLock<T>);

// SAFETY: a shared lock gives one thread at a time the value, from which it may move it out: what `Send` allows. Between two uses
// lie a release and an acquire of `is_taken`.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    pub(super) fn new(value: T) -> Self {
        Self { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, if nobody uses it now.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<TryGuard<'_, T>> {
        // Acquire: what the last user did is seen.
        self.is_taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then_some(TryGuard(self))
    }

    /// The value, as soon as nobody else uses it.
    #[cold]
    pub(super) fn lock(&self) -> TryGuard<'_, T> {
        #[cfg(not(rmm_loom))]
        for _ in 0..SPINS {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            std::hint::spin_loop();
        }
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            yield_now();
        }
    }
}

impl<T> Deref for TryGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only one of its lock, as `is_taken` was clear when it was made and is set while it exists; so
        // references to the value come from it alone, and its own borrow keeps the kinds apart.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for TryGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed alone.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for TryGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: the next user sees what was done.
        self.0.is_taken.store(false, Ordering::Release);
    }
}

impl<T: fmt::Debug> fmt::Debug for TryLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(value) => f.debug_tuple("TryLock").field(&*value).finish(),
            None => f.write_str("TryLock(<taken>)"),
        }
    }
}
