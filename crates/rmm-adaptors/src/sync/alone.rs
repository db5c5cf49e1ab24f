//! Values that a thread uses without an atomic read-modify-write as long as no other thread has
//! come.
//!
//! The first thread that comes is the user. It says that it is inside, then looks whether it still
//! is the user. The second that comes ends that for good: it takes the place away from the user,
//! then looks whether that is inside, and hands the value over to where all threads find it.
//! Between the two steps of each is a fence, so that at least one of them sees the other. The
//! user's costs nothing, the other's, once in the value's life, a call of the system.

use std::fmt;
use std::sync::PoisonError;

use super::backoff::spin_until;
use super::fence::Fences;
use super::primitives::atomic::{AtomicBool, AtomicU64, Ordering};
use super::primitives::{Mutex, UnsafeCell};
use super::thread_number;

/// Nobody has come.
const NOBODY_YET: u64 = 0;
/// A second thread has come and hands the value over.
const ENDING: u64 = u64::MAX - 1;
/// All threads use what the value was handed over to.
const SHARED: u64 = u64::MAX;

/// A value with one user at the most; apart from its neighbours in the processor's caches.
#[repr(align(128))]
pub(crate) struct Alone<T> {
    /// The number of the thread that may be inside, or one of those above.
    ///
    /// # Invariant
    /// Only ever goes from [`NOBODY_YET`] to a thread's number, and from either to [`ENDING`] and
    /// then [`SHARED`].
    user: AtomicU64,
    /// Whether the user may be at the value. Written by that thread alone.
    is_inside: AtomicBool,
    fences: Fences,
    /// # Invariant
    /// References to it are made by the user while it is inside, and by the one thread that hands
    /// it over.
    value: UnsafeCell<T>,
    /// Held by a thread that hands the value over.
    ending: Mutex<()>,
}

/// The user, while it says that it is inside.
struct Inside<'a>(&'a AtomicBool);

// SAFETY: the value is used by one thread, and then by one other, between which lie the release and
// the acquire of `is_inside`.
unsafe impl<T: Send> Sync for Alone<T> {}

// What a panic leaves behind is what it leaves under a mutex of which nobody minds that it is
// poisoned.
impl<T> std::panic::RefUnwindSafe for Alone<T> {}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: whoever takes the value over sees what was done.
        self.0.store(false, Ordering::Release);
    }
}

impl<T: Default> Default for Alone<T> {
    fn default() -> Self {
        Self {
            user: AtomicU64::new(NOBODY_YET),
            is_inside: AtomicBool::new(false),
            fences: Fences::of_process(),
            value: UnsafeCell::default(),
            ending: Mutex::default(),
        }
    }
}

impl<T> Alone<T> {
    /// Acts on the value, if no other thread has ever come. Else gives the action back, which is
    /// then to act on what `share` made of the value: that is called once, before the action is
    /// given back to anybody.
    ///
    /// An action that comes here again waits for itself forever; a panic passes through. `share`
    /// must not panic.
    #[inline]
    pub(crate) fn enter<R, F: FnOnce(&mut T) -> R>(
        &self,
        act: F,
        share: impl FnOnce(&mut T),
    ) -> Result<R, F> {
        self.enter_as(thread_number, act, share)
    }

    /// As `enter`; `me` tells the calling thread's number.
    #[inline]
    fn enter_as<R, F: FnOnce(&mut T) -> R>(
        &self,
        me: impl FnOnce() -> u64,
        act: F,
        share: impl FnOnce(&mut T),
    ) -> Result<R, F> {
        // Acquire: the value was handed over, if it is shared.
        let user = self.user.load(Ordering::Acquire);
        if user == SHARED {
            return Err(act);
        }
        let me = me();
        let is_user = user == me || (user == NOBODY_YET && self.become_user(me));
        if is_user && let Some(_inside) = self.go_inside(me) {
            // SAFETY: this thread says that it is inside, and found itself the user after that,
            // with a light fence between the two. So the one that takes the place away from it sees
            // that it is inside after the heavy fence that follows, and waits for the end of this
            // call before it uses the value. This thread itself is not inside twice, as `go_inside`
            // looks.
            return Ok(self.value.with_mut(|value| act(unsafe { &mut *value })));
        }
        self.end(share);
        Err(act)
    }

    #[cold]
    fn become_user(&self, me: u64) -> bool {
        let claimed =
            self.user.compare_exchange(NOBODY_YET, me, Ordering::Relaxed, Ordering::Relaxed);
        claimed.is_ok()
    }

    /// `me` was the user.
    #[inline]
    fn go_inside(&self, me: u64) -> Option<Inside<'_>> {
        // Its own store: no other thread was the user.
        if self.is_inside.load(Ordering::Relaxed) {
            return None;
        }
        self.is_inside.store(true, Ordering::Relaxed);
        let inside = Inside(&self.is_inside);
        self.fences.light();
        (self.user.load(Ordering::Relaxed) == me).then_some(inside)
    }

    /// Returns once the value was handed over.
    #[cold]
    fn end(&self, share: impl FnOnce(&mut T)) {
        let _one = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if self.user.load(Ordering::Relaxed) == SHARED {
            return;
        }
        self.user.swap(ENDING, Ordering::Relaxed);
        self.fences.heavy();
        // Acquire: what the user did is seen.
        spin_until(|| !self.is_inside.load(Ordering::Acquire));
        // SAFETY: nobody is the user from the swap on. Who was has seen so in `go_inside`, or was
        // seen inside above, after the heavy fence, and has left. No other thread is here, as the
        // lock is held.
        self.value.with_mut(|value| share(unsafe { &mut *value }));
        self.user.store(SHARED, Ordering::Release);
    }
}

impl<T> fmt::Debug for Alone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_shared = self.user.load(Ordering::Relaxed) == SHARED;
        f.debug_struct("Alone").field("is_shared", &is_shared).finish_non_exhaustive()
    }
}

/// A lock that costs next to nothing as long as one thread alone takes it, and afterwards what a
/// mutex costs.
#[derive(Default)]
pub(crate) struct AloneOrLocked<T> {
    alone: Alone<T>,
    /// Where the value is once it was handed over.
    locked: std::sync::Mutex<T>,
}

impl<T> AloneOrLocked<T> {
    /// Acts on the value. An action must not come here again.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let locked = || self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        match self.alone.enter(act, |value| std::mem::swap(value, &mut *locked())) {
            Ok(result) => result,
            Err(act) => act(&mut locked()),
        }
    }
}

impl<T> fmt::Debug for AloneOrLocked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AloneOrLocked").field("alone", &self.alone).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(rmm_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    #[test]
    fn one_thread_acts_on_the_value_itself() {
        let alone = Alone::<u32>::default();
        for _ in 0..3 {
            let acted = alone.enter(|value| *value += 1, |_| unreachable!("nobody else came"));
            assert!(acted.is_ok());
        }
        let other = thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut shared = 0;
                let acted = alone.enter(|_| (), |value| shared = *value).is_ok();
                (acted, shared)
            });
            other.join().expect("it does not panic")
        });
        assert_eq!(other, (false, 3));
        let again = alone.enter(|_| (), |_| unreachable!("it was handed over"));
        assert!(again.is_err());
    }

    #[test]
    fn a_panic_leaves_the_value_usable_by_all() {
        let value = AloneOrLocked::<u32>::default();
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
            let value = AloneOrLocked::<u64>::default();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..1000).for_each(|_| value.with(|value| *value += 1)));
                }
            });
            assert_eq!(value.with(|value| *value), 4000);
        }
    }
}

#[cfg(all(test, rmm_loom))]
mod models {
    use std::sync::atomic::AtomicU64 as AllKnowing;

    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::sync::Counter;

    struct Counter {
        alone: Alone<u32>,
        shared: Mutex<u32>,
    }

    impl Counter {
        fn add(&self, me: u64) {
            let shared = || self.shared.lock().expect("no thread panics");
            let hand_over = |value: &mut u32| *shared() += std::mem::take(value);
            if let Err(add) = self.alone.enter_as(|| me, |value| *value += 1, hand_over) {
                add(&mut shared());
            }
        }
    }

    /// Every interleaving of threads that come at any time: each use is counted, and none is of a
    /// value that another is at.
    fn adds(of_each_thread: &'static [usize]) {
        let mut model = loom::model::Builder::new();
        if of_each_thread.len() > 2 {
            // All would take hours.
            model.preemption_bound = Some(2);
        }
        model.check(move || {
            let counter = Arc::new(Counter { alone: Alone::default(), shared: Mutex::default() });
            let others: Vec<_> = (2..)
                .zip(&of_each_thread[1..])
                .map(|(me, &times)| {
                    let counter = Arc::clone(&counter);
                    thread::spawn(move || (0..times).for_each(|_| counter.add(me)))
                })
                .collect();
            (0..of_each_thread[0]).for_each(|_| counter.add(1));
            others.into_iter().for_each(|other| other.join().expect("it does not panic"));
            // As thread 1, which is the user or not.
            counter.add(1);
            let shared = *counter.shared.lock().expect("no thread panics");
            let alone = counter.alone.enter_as(|| 1, |value| *value, |_| ()).unwrap_or(0);
            let all = of_each_thread.iter().sum::<usize>() + 1;
            assert_eq!((shared + alone) as usize, all);
        });
    }

    #[test]
    fn two_threads_that_come_at_once_lose_nothing() {
        adds(&[1, 2]);
    }

    #[test]
    fn a_user_that_goes_on_loses_nothing_to_a_second_thread() {
        adds(&[2, 1]);
    }

    #[test]
    fn three_threads_hand_over_once() {
        adds(&[1, 1, 1]);
    }

    /// A sum beside the value, as limits have: the one that is alone adds to it without an atomic
    /// operation.
    struct Limit {
        alone: Alone<u64>,
        sum: Counter,
        /// What was counted alone. For loom it is not there, so it orders nothing.
        alone_sum: AllKnowing,
    }

    impl Limit {
        fn add(&self, me: u64) {
            let add_alone = |count: &mut u64| {
                *count += 1;
                self.sum.add_alone(1);
            };
            let share = |count: &mut u64| self.alone_sum.store(*count, Ordering::Relaxed);
            if self.alone.enter_as(|| me, add_alone, share).is_err() {
                assert!(self.sum.get() >= self.alone_sum.load(Ordering::Relaxed));
                self.sum.add(1);
            }
        }
    }

    #[test]
    fn who_finds_a_value_shared_sees_the_sum_beside_it() {
        let mut model = loom::model::Builder::new();
        // All would take hours.
        model.preemption_bound = Some(2);
        model.check(|| {
            let (alone, sum) = (Alone::default(), Counter::default());
            let limit = Arc::new(Limit { alone, sum, alone_sum: AllKnowing::new(0) });
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
