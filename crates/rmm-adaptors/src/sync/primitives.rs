//! Synchronization primitives: those of `std`, or of `loom`, which explores every interleaving.

#![forbid(unsafe_code)]

#[cfg(rmm_loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{Mutex, MutexGuard, atomic},
    thread::yield_now,
};
#[cfg(not(rmm_loom))]
pub(crate) use std::{
    sync::{Mutex, MutexGuard, atomic},
    thread::yield_now,
};

#[cfg(not(rmm_loom))]
pub(crate) use cell::UnsafeCell;

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
