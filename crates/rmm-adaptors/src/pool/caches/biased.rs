//! Values that have one thread as their user, which enters without an atomic read-modify-write; all
//! others have to stop it first.
//!
//! The user says that it is inside, then looks whether it still is the user. Whoever else wants the
//! value takes the place from its user, then looks whether that is inside. Between the two steps of
//! each is a fence, so that at least one of them sees the other. The user's costs nothing, the
//! other's a call of the system.

use std::fmt;
use std::sync::{OnceLock, PoisonError};

use super::thread::{Id, Me, NOBODY, Thread};
use crate::sync::backoff::spin_until;
use crate::sync::fence::Fences;
use crate::sync::primitives::atomic::{AtomicU64, Ordering};
use crate::sync::primitives::{Mutex, MutexGuard, UnsafeCell};

/// A value with a user, and beside it what everybody may look at; apart from its neighbours in the
/// processor's caches.
#[repr(align(128))]
pub(super) struct Place<S, T> {
    /// The id of the thread that may [enter](Self::enter).
    ///
    /// # Invariant
    /// Written only by the one [`Outside`] of its [`Places`].
    user: AtomicU64,
    fences: Fences,
    shared: S,
    /// # Invariant
    /// References to it are made only in `enter`, by the user, and in [`Outside::visit`], while
    /// nobody is the user and the last one is not inside.
    value: UnsafeCell<T>,
}

/// Some places, which are made when they are needed for the first time.
pub(super) struct Places<S, T, const N: usize> {
    /// Made with `outside` locked.
    all: OnceLock<Box<[Place<S, T>; N]>>,
    make: fn() -> (S, T),
    fences: Fences,
    /// The users, by place; none until there are places.
    outside: Mutex<Vec<Option<&'static Thread>>>,
}

/// The right to use the values as somebody else than their users. Only one at a time has it.
pub(super) struct Outside<'a, S, T, const N: usize> {
    places: &'a [Place<S, T>; N],
    fences: Fences,
    /// # Invariant
    /// Index: a place's number. If the place's user is not [`NOBODY`], it is or was this one.
    users: MutexGuard<'a, Vec<Option<&'static Thread>>>,
}

/// Who is a place's user from now on.
#[derive(Clone, Copy, Debug)]
pub(super) enum NextUser {
    Nobody,
    Is(Me),
    /// As before.
    Same,
}

/// A thread that says that it is inside, until this is dropped.
struct Inside(&'static Thread);

// SAFETY: the value is given to one thread at a time, from which it may move it out: what `Send`
// allows. Between two uses lie a release and an acquire: of `user` from outside to a user, of
// `is_inside` from a user to outside, and of the mutex from outside to outside. `S` is shared, and
// moves with the places.
unsafe impl<S: Sync, T: Send> Sync for Place<S, T> {}

// What is done at a value does not panic.
impl<S, T> std::panic::RefUnwindSafe for Place<S, T> {}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        // Release: whoever comes from outside sees what was done.
        self.0.is_inside.store(false, Ordering::Release);
    }
}

impl<S, T> Place<S, T> {
    /// What everybody may look at.
    #[inline]
    pub(super) fn shared(&self) -> &S {
        &self.shared
    }

    /// Whether the calling thread is the user, if nobody changes that.
    #[inline]
    pub(super) fn is_used_by(&self, me: Me) -> bool {
        self.user.load(Ordering::Relaxed) == me.id()
    }

    /// Lets the calling thread use the value, if it is the user and not at a value already.
    #[inline]
    pub(super) fn enter<R>(&self, me: Me, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        let thread = me.thread();
        // Its own store: no other thread's.
        if thread.is_inside.load(Ordering::Relaxed) {
            return None;
        }
        thread.is_inside.store(true, Ordering::Relaxed);
        let inside = Inside(thread);
        self.fences.light();
        // Acquire: what was done from outside before this thread became the user is seen.
        if self.user.load(Ordering::Acquire) != me.id() {
            return None;
        }
        // SAFETY: this thread says that it is inside, and found itself the user after that, with a
        // light fence between the two. So whoever makes another the user, and nobody for a start,
        // sees that it is inside after the heavy fence that follows, and waits for the end of this
        // call before it uses the value. This thread itself is not inside twice, as seen above.
        // `me` is this thread's, as it does not leave it, and the thread is not at its end, as `me`
        // is not kept until then.
        let result = self.value.with_mut(|value| act(unsafe { &mut *value }));
        drop(inside);
        Some(result)
    }
}

impl<S, T, const N: usize> Places<S, T, N> {
    /// Places without users.
    pub(super) fn new(fences: Fences, make: fn() -> (S, T)) -> Self {
        Self { all: OnceLock::new(), make, fences, outside: Mutex::new(Vec::new()) }
    }

    /// The places, if there are any yet.
    #[inline]
    pub(super) fn made(&self) -> Option<&[Place<S, T>; N]> {
        self.all.get().map(|places| &**places)
    }

    /// Bytes that all of them take.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = |places| size_of_val(places) + N * size_of::<Option<&Thread>>();
        self.made().map_or(0, bytes) as u64
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Place<S, T>> {
        self.made().into_iter().flatten()
    }

    fn make(&self) -> Vec<Place<S, T>> {
        let place = |_| {
            let (shared, value) = (self.make)();
            let (user, value) = (AtomicU64::new(NOBODY), UnsafeCell::new(value));
            Place { user, fences: self.fences, shared, value }
        };
        (0..N).map(place).collect()
    }

    /// The right to use values that are others', of places that are made now if there are none. The
    /// user of none may be the calling thread and inside.
    #[cold]
    pub(super) fn outside(&self) -> Outside<'_, S, T, N> {
        let mut users = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        let places = self.all.get_or_init(|| {
            let Ok(places) = self.make().try_into() else { unreachable!("there are N of them") };
            places
        });
        users.resize(N, None);
        Outside { places, fences: self.fences, users }
    }

    /// As [`outside`](Self::outside), if there are places.
    #[cold]
    pub(super) fn outside_of_made(&self) -> Option<Outside<'_, S, T, N>> {
        self.made().map(|_| self.outside())
    }
}

impl<'a, S, T, const N: usize> Outside<'a, S, T, N> {
    /// All places.
    pub(super) fn places(&self) -> &'a [Place<S, T>; N] {
        self.places
    }

    /// The thread that may be at the value of a place, with its id.
    fn user(&self, index: usize) -> Option<(&'static Thread, Id)> {
        let id = self.places[index].user.load(Ordering::Relaxed);
        // What one did that has ended is seen.
        self.users[index].filter(|user| user.is(id)).map(|user| (user, id))
    }

    /// Whether a place has no user, or one that has ended.
    pub(super) fn is_nobodys(&self, index: usize) -> bool {
        self.user(index).is_none()
    }

    /// Uses the values of some places. `me` is the calling thread, if it is not at its end.
    pub(super) fn visit(
        &mut self,
        me: Option<Me>,
        next: NextUser,
        which: impl Fn(usize, &S) -> bool,
        mut act: impl FnMut(&S, &mut T),
    ) {
        let mut former: [Option<Option<(&'static Thread, Id)>>; N] = [None; N];
        let mut are_others = false;
        for (index, place) in self.places.iter().enumerate() {
            if which(index, &place.shared) {
                let user = self.user(index);
                // Nobody else writes it, so this is no read-modify-write.
                place.user.store(NOBODY, Ordering::Relaxed);
                are_others |= user.is_some_and(|(_, id)| me.is_none_or(|me| me.id() != id));
                former[index] = Some(user);
            }
        }
        if are_others {
            self.fences.heavy();
        }
        for ((former, place), user) in former.iter().zip(self.places).zip(self.users.iter_mut()) {
            let Some(former) = *former else { continue };
            if let Some((thread, _)) = former {
                // Acquire: what the thread did is seen.
                spin_until(|| !thread.is_inside.load(Ordering::Acquire));
            }
            // SAFETY: nobody is the user since the stores above, and this is the only one that
            // changes that. The former one has ended, or has seen so in `enter`, or was seen inside
            // above, after the heavy fence, and has left; if it is this thread, it needs no fence
            // to see what it stored. So nobody has a reference to the value.
            place.value.with_mut(|value| act(&place.shared, unsafe { &mut *value }));
            let next = match next {
                NextUser::Nobody => None,
                NextUser::Is(next) => Some((next.thread(), next.id())),
                NextUser::Same => former,
            };
            *user = next.map(|(thread, _)| thread);
            // Release: what was done here is seen by the user.
            place.user.store(next.map_or(NOBODY, |(_, id)| id), Ordering::Release);
        }
    }
}

impl<S: fmt::Debug, T> fmt::Debug for Place<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, T, const N: usize> fmt::Debug for Places<S, T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(all(test, rmm_loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread::{self, yield_now};

    use super::super::thread::Threads;
    use super::*;

    type Two = Places<(), u32, 2>;

    /// Places, and two threads: this one, and another that is the user.
    fn used() -> (Arc<Two>, [&'static Thread; 2]) {
        let places = Arc::new(Two::new(Fences::of_process(), || ((), 0)));
        let threads = [1, 2].map(|number| Thread::leak(number, number as Id));
        let user = NextUser::Is(Me::new(threads[1]));
        places.outside().visit(None, user, |_, ()| true, |(), _| {});
        (places, threads)
    }

    fn add(places: &Two, number: usize, me: Me) -> u32 {
        let place = places.made().map(|places| &places[number]);
        u32::from(place.and_then(|place| place.enter(me, |value| *value += 1)).is_some())
    }

    fn take_over(places: &Two, me: Me) {
        places.outside().visit(Some(me), NextUser::Is(me), |_, ()| true, |(), value| *value += 1);
    }

    fn total(places: &Two, me: Me) -> u32 {
        let mut total = 0;
        places.outside().visit(
            Some(me),
            NextUser::Nobody,
            |_, ()| true,
            |(), value| total += *value,
        );
        total
    }

    /// Every interleaving of a user that enters and another thread that takes its places away: no
    /// use is lost.
    #[test]
    fn a_user_and_one_from_outside_are_never_in_together() {
        loom::model(|| {
            let (places, [here, there]) = used();
            let user = thread::spawn({
                let places = Arc::clone(&places);
                move || {
                    let me = Me::new(there);
                    add(&places, 0, me) + add(&places, 1, me)
                }
            });
            take_over(&places, Me::new(here));
            let added = add(&places, 0, Me::new(here));
            assert_eq!(added, 1, "nobody else takes it away");
            let theirs = user.join().expect("it does not panic");
            assert_eq!(total(&places, Me::new(here)), 2 + added + theirs);
        });
    }

    /// As before, but the user stays the user, and goes on with what was left there.
    #[test]
    fn a_user_sees_what_was_done_from_outside() {
        loom::model(|| {
            let (places, [here, there]) = used();
            let user = thread::spawn({
                let places = Arc::clone(&places);
                move || {
                    let me = Me::new(there);
                    add(&places, 0, me) + add(&places, 0, me)
                }
            });
            let me = Me::new(here);
            places.outside().visit(Some(me), NextUser::Same, |_, ()| true, |(), value| *value += 1);
            let theirs = user.join().expect("it does not panic");
            assert_eq!(total(&places, me), 2 + theirs);
        });
    }

    /// The user ends, and another thread goes on with its places, for which it does not have to
    /// stop anybody.
    #[test]
    fn what_an_ended_user_did_is_seen() {
        loom::model(|| {
            let (places, [here, there]) = used();
            let user = thread::spawn({
                let places = Arc::clone(&places);
                move || {
                    assert_eq!(
                        add(&places, 0, Me::new(there)),
                        1,
                        "its place is not taken before its end"
                    );
                    there.end();
                }
            });
            let me = Me::new(here);
            let mut outside = places.outside();
            while !outside.is_nobodys(0) {
                yield_now();
            }
            outside.visit(Some(me), NextUser::Is(me), |_, ()| true, |(), value| *value += 1);
            drop(outside);
            assert_eq!(add(&places, 0, me), 1);
            assert_eq!(total(&places, me), 4);
            user.join().expect("it does not panic");
        });
    }

    /// As the first, but the one from outside is at its end, and has no id to be told apart by.
    #[test]
    fn one_at_its_end_and_a_user_are_never_in_together() {
        loom::model(|| {
            let (places, [here, there]) = used();
            let user = thread::spawn({
                let places = Arc::clone(&places);
                move || add(&places, 0, Me::new(there)) + add(&places, 0, Me::new(there))
            });
            let take = |(): &(), value: &mut u32| *value += 1;
            places.outside().visit(None, NextUser::Nobody, |_, ()| true, take);
            let theirs = user.join().expect("it does not panic");
            assert_eq!(total(&places, Me::new(here)), 2 + theirs);
        });
    }

    /// The user ends, and its record may be the next thread's before anybody looks: then that is
    /// how its end is seen.
    #[test]
    fn what_an_ended_user_did_is_seen_in_the_next_thread_s_id() {
        loom::model(|| {
            let places = Arc::new(Two::new(Fences::of_process(), || ((), 0)));
            let threads = Arc::new(Mutex::new(Threads::none()));
            let make = |threads: &Mutex<Threads>| threads.lock().expect("no thread panics").make();
            let (here, there) = (make(&threads), make(&threads));
            let user = NextUser::Is(Me::new(there));
            places.outside().visit(None, user, |_, ()| true, |(), _| {});
            let user = thread::spawn({
                let (places, threads) = (Arc::clone(&places), Arc::clone(&threads));
                move || {
                    let me = Me::new(there);
                    assert_eq!(add(&places, 0, me), 1, "its place is not taken before its end");
                    let mut threads = threads.lock().expect("no thread panics");
                    threads.end(there);
                    threads.make();
                }
            });
            let me = Me::new(here);
            let mut outside = places.outside();
            while !outside.is_nobodys(0) {
                yield_now();
            }
            let mut value = 0;
            let look = |(): &(), its: &mut u32| value += *its;
            outside.visit(Some(me), NextUser::Is(me), |index, ()| index == 0, look);
            assert_eq!(value, 1);
            drop(outside);
            user.join().expect("it does not panic");
        });
    }

    /// Both take the place from each other, and enter it if they can.
    #[test]
    fn users_that_take_turns_see_what_the_other_did() {
        loom::model(|| {
            let places = Arc::new(Two::new(Fences::of_process(), || ((), 0)));
            let [here, there] = [1, 2].map(|number| Thread::leak(number, number as Id));
            let other = thread::spawn({
                let places = Arc::clone(&places);
                move || {
                    let me = Me::new(there);
                    take_over(&places, me);
                    add(&places, 0, me)
                }
            });
            let me = Me::new(here);
            take_over(&places, me);
            let added = add(&places, 0, me);
            let theirs = other.join().expect("it does not panic");
            assert_eq!(total(&places, me), 4 + added + theirs);
        });
    }
}
