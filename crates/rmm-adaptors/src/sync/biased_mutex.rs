//! A mutex that costs one thread next to nothing, as long as it is the only one (biased locking).

#![forbid(unsafe_code)]

use rmm_core::fork;
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use super::first_thread::FirstThreadCell;

/// A mutex biased to the first thread that locks it. From the second thread on it is a plain mutex.
#[derive(Default)]
pub(crate) struct BiasedMutex<T> {
    /// The value, while one thread alone has come.
    first: FirstThreadCell<T>,
    /// The value, once it is shared.
    shared: Mutex<T>,
}

impl<T> BiasedMutex<T> {
    /// Acts on the value. An action must not lock the same mutex again.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        match self.first.enter(act, |value| std::mem::swap(value, &mut *self.lock())) {
            Ok(result) => result,
            Err(act) => act(&mut self.lock()),
        }
    }

    /// Poison is ignored: a panic leaves the value as it is.
    fn lock(&self) -> MutexGuard<'_, T> {
        fork::lock(&self.shared)
    }
}

impl<T> fmt::Debug for BiasedMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BiasedMutex").field("first", &self.first).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(rmm_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    #[test]
    fn a_panic_leaves_the_value_usable_by_all_threads() {
        let value = BiasedMutex::<u32>::default();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            value.with(|value| {
                *value += 1;
                panic!("on purpose");
            });
        }));
        assert!(panicked.is_err());
        value.with(|value| *value += 1);
        let seen = thread::scope(|scope| scope.spawn(|| value.with(|value| *value)).join());
        assert_eq!(seen.expect("it does not panic"), 2);
    }

    #[test]
    fn nothing_is_lost_when_other_threads_come() {
        for _ in 0..100 {
            let value = BiasedMutex::<u64>::default();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..1000).for_each(|_| value.with(|value| *value += 1)));
                }
            });
            assert_eq!(value.with(|value| *value), 4000);
        }
    }

    #[test]
    fn actions_on_different_mutexes_nest() {
        let [outer, inner] = [(); 2].map(|()| BiasedMutex::<u32>::default());
        let add = || {
            outer.with(|outer| {
                *outer += 1;
                inner.with(|inner| *inner += *outer);
            });
        };
        add();
        thread::scope(|scope| scope.spawn(add).join()).expect("it does not panic");
        assert_eq!([&outer, &inner].map(|mutex| mutex.with(|value| *value)), [2, 3]);
    }
}
