//! A lock that nobody queues for: whoever finds it taken does something else, or comes back.
//!
//! It costs one atomic read-modify-write where a mutex, which has to wake others at its end, costs two.

use std::fmt;
use std::ops::{Deref, DerefMut};

#[cfg(rmm_loom)]
use loom::{sync::atomic, thread::yield_now};
#[cfg(not(rmm_loom))]
use std::{sync::atomic, thread::yield_now};

use atomic::{AtomicBool, Ordering};
use cell::UnsafeCell;

#[cfg(rmm_loom)]
use loom::cell;

/// The part of `loom::cell` that is used here.
#[cfg(not(rmm_loom))]
mod cell {
    pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(super) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(super) fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
            look(self.0.get())
        }

        #[inline]
        pub(super) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
            change(self.0.get())
        }
    }
}

/// Looks at a taken lock before the processor is left to others.
#[cfg(not(rmm_loom))]
const SPINS: u32 = 64;

/// A value that one thread at a time may use, for a few instructions.
pub(super) struct TryLock<T> {
    /// # Invariant
    /// Set for as long as a [`TryGuard`] of this lock exists, of which there is one at most.
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
        let taken =
            self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        // The guard is made only by the one that has taken the lock: even an unused one gives it up.
        taken.is_ok().then(|| TryGuard(self))
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
        self.0.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for TryGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed alone.
        self.0.value.with_mut(|value| unsafe { &mut *value })
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

#[cfg(all(test, rmm_loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Every interleaving of two threads that take the lock, each in one of its two ways: no update is lost, and each sees the other's.
    #[test]
    fn one_thread_at_a_time_has_the_value() {
        loom::model(|| {
            let lock = Arc::new(TryLock::new(0));
            let other = thread::spawn({
                let lock = Arc::clone(&lock);
                move || {
                    let taken = lock.try_lock();
                    let is_taken = taken.is_some();
                    if let Some(mut value) = taken {
                        *value += 1;
                    }
                    u32::from(is_taken)
                }
            });
            *lock.lock() += 1;
            let added = other.join().expect("it does not panic");
            assert_eq!(*lock.lock(), 1 + added);
        });
    }
}
