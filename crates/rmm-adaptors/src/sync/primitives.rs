//! Synchronization primitives: those of `std`, or of `loom`, which explores every interleaving.

#![forbid(unsafe_code)]

#[cfg(rmm_loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{Mutex, MutexGuard, atomic},
};
#[cfg(not(rmm_loom))]
pub(crate) use rmm_core::{backoff::spin_until, fork::lock};
#[cfg(not(rmm_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(not(rmm_loom))]
pub(crate) use cell::UnsafeCell;

/// Takes a lock. No thread of a model panics with it.
#[cfg(rmm_loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Returns once `is_so` holds: other threads of the model run meanwhile.
#[cfg(rmm_loom)]
pub(crate) fn spin_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        loom::thread::yield_now();
    }
}

#[cfg(not(rmm_loom))]
mod cell {
    /// The part of `loom::cell::UnsafeCell` that is used here.
    #[derive(Default)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
            change(self.0.get())
        }
    }
}
