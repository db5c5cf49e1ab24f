//! Values that the first thread uses without an atomic read-modify-write, until a second one comes.
//!
//! The first thread owns a [`BiasedCell`]. The second revokes that for good and moves the value to
//! where all threads find it (a mutex, a concurrent map, an atomic). The owner's fence costs
//! nothing; the revocation costs one system call in the value's life.

#![forbid(unsafe_code)]

use std::fmt;

use super::biased::{BiasedCell, EnterGuard, FirstThread, Ownership, revoke};
use super::fence::Fences;
use super::primitives::{self, Mutex};
use super::thread_number::ThreadNumber;

/// A value that belongs to the first thread that uses it, until a second one comes.
pub(crate) struct FirstThreadCell<T> {
    cell: BiasedCell<(), T, FirstThread>,
    /// Held by the thread that shares the value: others sleep meanwhile, instead of spinning.
    revoker: Mutex<()>,
}

/// How a thread updates the atomics beside a cell, while it has this.
#[derive(Debug)]
pub(crate) struct Access<'a>(Option<EnterGuard<'a>>);

impl Access<'_> {
    /// Any thread may write the atomics at the same time.
    pub(crate) const SHARED: Self = Self(None);

    /// Whether no other thread writes them: then a load and a store are enough.
    #[inline]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.0.is_some()
    }
}

impl<T: Default> Default for FirstThreadCell<T> {
    fn default() -> Self {
        let cell = BiasedCell::new((), T::default(), Fences::of_process());
        Self { cell, revoker: Mutex::default() }
    }
}

impl<T> FirstThreadCell<T> {
    /// Acts on the value if no other thread has come. Otherwise gives the action back, to act on
    /// what `share` made of the value: `share` is called once, before any action is returned.
    ///
    /// An action must not enter the same cell again: it would wait for itself. A panic of the
    /// action passes through; `share` must not panic.
    #[inline]
    pub(crate) fn enter<R, A: FnOnce(&mut T) -> R>(
        &self,
        act: A,
        share: impl FnOnce(&mut T),
    ) -> Result<R, A> {
        self.enter_as(ThreadNumber::current, act, share)
    }

    /// Acts on the value if no other thread than `me`, the calling one, has come. Otherwise as
    /// [`enter`](Self::enter).
    #[inline]
    fn enter_as<R, A: FnOnce(&mut T) -> R>(
        &self,
        me: impl FnOnce() -> ThreadNumber,
        act: A,
        share: impl FnOnce(&mut T),
    ) -> Result<R, A> {
        let act = match self.cell.claim(me) {
            Ownership::Mine(owned) => match owned.enter(act) {
                Ok(result) => return Ok(result),
                Err(act) => act,
            },
            Ownership::AnotherThread => act,
            Ownership::Revoked => return Err(act),
        };
        self.revoke(share);
        Err(act)
    }

    /// Returns once the value was shared.
    #[cold]
    fn revoke(&self, share: impl FnOnce(&mut T)) {
        #[cfg(not(rmm_loom))]
        rmm_core::wait::about_to_wait();
        let _only = primitives::lock(&self.revoker);
        let mut share = Some(share);
        revoke(std::slice::from_ref(&self.cell), None, [0], |(), value| {
            if let Some(share) = share.take() {
                share(value);
            }
        });
    }
}

impl FirstThreadCell<()> {
    /// Access to atomics beside the cell that are written with such an access alone. A thread has
    /// one at a time.
    #[inline]
    pub(crate) fn access(&self) -> Access<'_> {
        self.access_as(ThreadNumber::current)
    }

    /// The [`access`](Self::access) of the thread `me`, which is the calling one.
    #[inline]
    fn access_as(&self, me: impl FnOnce() -> ThreadNumber) -> Access<'_> {
        match self.cell.claim(me) {
            Ownership::Revoked => return Access::SHARED,
            Ownership::AnotherThread => {}
            Ownership::Mine(owned) => {
                if let Some(inside) = owned.stay() {
                    return Access(Some(inside));
                }
            }
        }
        self.revoke(|()| ());
        Access::SHARED
    }
}

impl<T> fmt::Debug for FirstThreadCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FirstThreadCell").field(&self.cell).finish()
    }
}

#[cfg(all(test, not(rmm_loom)))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_first_thread_uses_the_value_until_a_second_comes() {
        let first = FirstThreadCell::<u32>::default();
        for _ in 0..3 {
            let entered = first.enter(|value| *value += 1, |_| unreachable!("there is one thread"));
            assert!(entered.is_ok());
        }
        let other = thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut shared = 0;
                let entered = first.enter(|_| (), |value| shared = *value).is_ok();
                (entered, shared)
            });
            other.join().expect("it does not panic")
        });
        assert_eq!(other, (false, 3));
        let again = first.enter(|_| (), |_| unreachable!("it is shared already"));
        assert!(again.is_err());
    }
}

#[cfg(all(test, rmm_loom))]
mod models {
    use std::sync::atomic::AtomicU64 as HiddenFromLoom;

    use loom::sync::Arc;
    use loom::sync::atomic::Ordering;
    use loom::thread;

    use super::*;
    use crate::sync::Counter;

    struct Sum {
        first: FirstThreadCell<u32>,
        shared: Mutex<u32>,
    }

    impl Sum {
        fn add(&self, me: u64) {
            let shared = || self.shared.lock().expect("no thread panics");
            let share = |value: &mut u32| *shared() += std::mem::take(value);
            let me = || ThreadNumber::of_model(me);
            if let Err(add) = self.first.enter_as(me, |value| *value += 1, share) {
                add(&mut shared());
            }
        }
    }

    /// Every interleaving of threads that come at any time: each use is counted, and no two threads
    /// use the value at once.
    fn adds(of_each_thread: &'static [usize]) {
        let mut model = loom::model::Builder::new();
        if of_each_thread.len() > 2 {
            // All interleavings would take hours.
            model.preemption_bound = Some(2);
        }
        model.check(move || {
            let sum = Arc::new(Sum { first: FirstThreadCell::default(), shared: Mutex::default() });
            let others: Vec<_> = (2..)
                .zip(&of_each_thread[1..])
                .map(|(me, &times)| {
                    let sum = Arc::clone(&sum);
                    thread::spawn(move || (0..times).for_each(|_| sum.add(me)))
                })
                .collect();
            (0..of_each_thread[0]).for_each(|_| sum.add(1));
            others.into_iter().for_each(|other| other.join().expect("it does not panic"));
            // As thread 1, which owns the cell or does not.
            sum.add(1);
            let shared = *sum.shared.lock().expect("no thread panics");
            let me = || ThreadNumber::of_model(1);
            let unshared = sum.first.enter_as(me, |value| *value, |_| ()).unwrap_or(0);
            let all = of_each_thread.iter().sum::<usize>() + 1;
            assert_eq!((shared + unshared) as usize, all);
        });
    }

    #[test]
    fn two_threads_that_come_at_once_lose_nothing() {
        adds(&[1, 2]);
    }

    #[test]
    fn an_owner_that_goes_on_loses_nothing_to_a_second_thread() {
        adds(&[2, 1]);
    }

    #[test]
    fn three_threads_share_the_value_once() {
        adds(&[1, 1, 1]);
    }

    /// A sum beside the cell, as limits have: the owner adds to it without a read-modify-write.
    #[derive(Default)]
    struct Limit {
        first: FirstThreadCell<()>,
        sum: Counter,
        /// What the owner has counted. Hidden from loom, so that it orders nothing.
        owner_sum: HiddenFromLoom,
    }

    impl Limit {
        fn add(&self, me: u64) {
            let access = self.first.access_as(|| ThreadNumber::of_model(me));
            if access.is_exclusive() {
                self.owner_sum.fetch_add(1, Ordering::Relaxed);
            } else {
                assert!(self.sum.get() >= self.owner_sum.load(Ordering::Relaxed));
            }
            self.sum.add(&access, 1);
        }
    }

    #[test]
    fn a_thread_that_finds_a_cell_revoked_sees_the_sum_beside_it() {
        let mut model = loom::model::Builder::new();
        // All interleavings would take hours.
        model.preemption_bound = Some(2);
        model.check(|| {
            let limit = Arc::new(Limit::default());
            let others = [2, 3].map(|me| {
                let limit = Arc::clone(&limit);
                thread::spawn(move || limit.add(me))
            });
            limit.add(1);
            for other in others {
                other.join().expect("it does not panic");
            }
            assert_eq!(limit.sum.get(), 3);
        });
    }
}
