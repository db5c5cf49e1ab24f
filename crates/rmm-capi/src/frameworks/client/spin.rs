//! A spin lock, for numbers that are changed within some nanoseconds.
//!
//! A release is one store. That of [`std::sync::Mutex`] is an atomic exchange, which takes as long
//! as the changes themselves; a client takes its lock at each allocation and free.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use rmm_core::backoff::spin_until;

/// A value that one thread at a time has. Lock order: leaf.
#[derive(Debug, Default)]
pub(super) struct SpinLock<T> {
    is_locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time refers to the value, so it is as if the value was sent to it.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// Releases the lock when it is dropped.
#[derive(Debug)]
pub(super) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
}

impl<T> SpinLock<T> {
    /// Takes the lock. The caller calls no function of others while it has it.
    #[inline]
    pub(super) fn lock(&self) -> SpinGuard<'_, T> {
        // Acquire: what the holder before has written.
        if self.is_locked.swap(true, Ordering::Acquire) {
            self.lock_contended();
        }
        SpinGuard { lock: self }
    }

    #[cold]
    fn lock_contended(&self) {
        loop {
            // Only loads, which leave the cache line with the holder, until a swap may succeed.
            spin_until(|| !self.is_locked.load(Ordering::Relaxed));
            if !self.is_locked.swap(true, Ordering::Acquire) {
                return;
            }
        }
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists from the swap that took the lock to its release, and no other
        // guard does then.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists from the swap that took the lock to its release, and no other
        // guard does then; it is borrowed mutably for as long as the result.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was written goes to the next holder.
        self.lock.is_locked.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 20_000;
        let lock = SpinLock::<[u64; 2]>::default();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut value = lock.lock();
                        assert_eq!(value[0], value[1]);
                        value[0] += 1;
                        value[1] += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), [THREADS * ROUNDS; 2]);
    }
}
