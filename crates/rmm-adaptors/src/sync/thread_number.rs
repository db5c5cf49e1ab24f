//! Numbers of threads, unique in the process.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the calling thread, as a token that stays on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadNumber {
    /// # Invariant
    /// At least 1, and no other thread's, before or after.
    number: u64,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl ThreadNumber {
    #[inline]
    pub(super) fn current() -> Self {
        Self { number: thread_number(), _stays_on_its_thread: PhantomData }
    }

    #[inline]
    pub(super) fn get(self) -> u64 {
        self.number
    }

    /// That of a model's thread, which has no other.
    #[cfg(all(test, rmm_loom))]
    pub(super) fn of_model(number: u64) -> Self {
        Self { number, _stays_on_its_thread: PhantomData }
    }
}

/// A small number for the calling thread, from 1, assigned once in a process: no other thread has
/// it, before or after.
#[inline]
pub(crate) fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        /// 0 until the first use. Without a destructor, so it lives until the thread's end.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}
