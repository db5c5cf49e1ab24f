//! A table of biased cells that change owners, made at first use.
//!
//! Each slot has a header that any thread may read, and a value in a [`BiasedCell`] that its owner
//! enters. A [`Revoker`] uses the values of other threads' slots, and gives slots to threads.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::OnceLock;

use super::biased::{BiasedCell, MAX_CELLS, NextOwner, PerThread, revoke};
use super::fence::Fences;
use super::primitives::{self, Mutex, MutexGuard};
use super::thread_token::ThreadToken;

/// A cell of a table, with what any thread may read of it.
pub(crate) type Slot<H, T> = BiasedCell<H, T, PerThread>;

/// `N` slots, which take no memory before they are needed.
pub(crate) struct BiasedTable<H, T, const N: usize> {
    slots: OnceLock<Box<[Slot<H, T>; N]>>,
    make: fn() -> (H, T),
    fences: Fences,
    /// Makes what a revoker reads of headers and owners hold until it revokes.
    revoker: Mutex<()>,
}

/// The only thread that revokes slots of a table, or gives them to threads.
pub(crate) struct Revoker<'a, H, T, const N: usize> {
    slots: &'a [Slot<H, T>; N],
    _only: MutexGuard<'a, ()>,
}

impl<H, T, const N: usize> BiasedTable<H, T, N> {
    /// A table whose slots have no owners, with what `make` returns for each.
    pub(crate) fn new(fences: Fences, make: fn() -> (H, T)) -> Self {
        const { assert!(N <= MAX_CELLS) };
        Self { slots: OnceLock::new(), make, fences, revoker: Mutex::default() }
    }

    /// The slots, once they were made.
    #[inline]
    pub(crate) fn slots(&self) -> Option<&[Slot<H, T>; N]> {
        self.slots.get().map(|slots| &**slots)
    }

    /// The slots, or none before they were made.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot<H, T>> {
        self.slots().into_iter().flatten()
    }

    /// Host bytes of the slots.
    pub(crate) fn bytes(&self) -> u64 {
        self.slots().map_or(0, size_of_val) as u64
    }

    /// Not on the stack, where they might not fit.
    fn make(&self) -> Vec<Slot<H, T>> {
        let slot = |_| {
            let (header, value) = (self.make)();
            Slot::new(header, value, self.fences)
        };
        (0..N).map(slot).collect()
    }

    /// The right to revoke slots, which are made now if there are none.
    #[cold]
    pub(crate) fn revoker(&self) -> Revoker<'_, H, T, N> {
        let only = primitives::lock(&self.revoker);
        let slots = self.slots.get_or_init(|| {
            let Ok(slots) = self.make().try_into() else { unreachable!("there are N of them") };
            slots
        });
        Revoker { slots, _only: only }
    }

    /// The right to revoke slots, if there are any.
    #[cold]
    pub(crate) fn revoker_of_made(&self) -> Option<Revoker<'_, H, T, N>> {
        self.slots().map(|_| self.revoker())
    }
}

impl<'a, H, T, const N: usize> Revoker<'a, H, T, N> {
    pub(crate) fn slots(&self) -> &'a [Slot<H, T>; N] {
        self.slots
    }

    /// Revokes the slots with these indices, each of them named once, all under one heavy fence,
    /// acts on each, and leaves each to `next`. `me` is the calling thread, unless that is exiting;
    /// it is not inside one of the slots.
    pub(crate) fn revoke(
        &mut self,
        me: Option<ThreadToken>,
        next: NextOwner,
        wanted: impl IntoIterator<Item = usize>,
        mut act: impl FnMut(&H, &mut T),
    ) {
        revoke(self.slots, me, wanted, |header, value| {
            act(header, value);
            next
        });
    }
}

impl<H: fmt::Debug, T, const N: usize> fmt::Debug for BiasedTable<H, T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(Slot::header)).finish()
    }
}

#[cfg(all(test, not(rmm_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    type Two = BiasedTable<(), u32, 2>;

    /// A table whose slots the calling thread owns.
    fn owned() -> (Two, ThreadToken) {
        let table = Two::new(Fences::of_process(), Default::default);
        let me = ThreadToken::current().expect("this thread goes on");
        table.revoker().revoke(Some(me), NextOwner::Thread(me), 0..2, |(), _| {});
        (table, me)
    }

    fn is_entered(slot: &Slot<(), u32>, me: ThreadToken) -> bool {
        slot.owned_by(me).is_some_and(|owned| owned.enter(|value| *value += 1).is_ok())
    }

    #[test]
    fn a_thread_is_inside_one_slot_at_a_time() {
        let (table, me) = owned();
        let [outer, inner] = table.slots().expect("they were made");
        let owned = outer.owned_by(me).expect("this thread owns it");
        let is_inner_entered = owned.enter(|_| is_entered(inner, me) || is_entered(outer, me));
        assert_eq!(is_inner_entered.ok(), Some(false));
        assert!(is_entered(inner, me) && is_entered(outer, me));
    }

    #[test]
    fn a_revoker_that_panics_leaves_slots_to_their_owners() {
        let (table, me) = owned();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let panics = |(): &(), _: &mut u32| panic!("on purpose");
            table.revoker().revoke(Some(me), NextOwner::None, 0..2, panics);
        }));
        assert!(panicked.is_err());
        let slots = table.slots().expect("they were made");
        assert!(slots.iter().all(|slot| is_entered(slot, me)));
        let mut sum = 0;
        let add = |(): &(), value: &mut u32| sum += *value;
        table.revoker().revoke(None, NextOwner::None, 0..2, add);
        assert_eq!(sum, 2);
    }
}

#[cfg(all(test, rmm_loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread::{self, yield_now};

    use super::*;
    use crate::sync::thread_token::{ThreadRecord, ThreadRecords};

    type Two = BiasedTable<(), u32, 2>;

    fn two() -> Arc<Two> {
        Arc::new(Two::new(Fences::of_process(), || ((), 0)))
    }

    fn two_threads() -> [&'static ThreadRecord; 2] {
        [1, 2].map(|number| ThreadRecord::leak(number, number as u64))
    }

    fn token(record: &'static ThreadRecord) -> ThreadToken {
        ThreadToken::of_model(record)
    }

    /// A table and two threads: this one, and another that owns both slots.
    fn owned() -> (Arc<Two>, [&'static ThreadRecord; 2]) {
        let (table, threads) = (two(), two_threads());
        let owner = NextOwner::Thread(token(threads[1]));
        table.revoker().revoke(None, owner, 0..2, |(), _| {});
        (table, threads)
    }

    /// Adds 1 to a slot, if the thread owns it; returns what was added.
    fn add(table: &Two, index: usize, me: ThreadToken) -> u32 {
        let owned = table.slots().and_then(|slots| slots[index].owned_by(me));
        u32::from(owned.is_some_and(|owned| owned.enter(|value| *value += 1).is_ok()))
    }

    /// Makes the thread the owner of both slots, and adds 1 to each.
    fn take_over(table: &Two, me: ThreadToken) {
        let next = NextOwner::Thread(me);
        table.revoker().revoke(Some(me), next, 0..2, |(), value| *value += 1);
    }

    fn total(table: &Two, me: ThreadToken) -> u32 {
        let mut total = 0;
        let add = |(): &(), value: &mut u32| total += *value;
        table.revoker().revoke(Some(me), NextOwner::None, 0..2, add);
        total
    }

    /// Every interleaving of an owner that enters and a thread that revokes its slots: no use is
    /// lost.
    #[test]
    fn an_owner_and_a_revoker_are_never_inside_together() {
        loom::model(|| {
            let (table, [here, there]) = owned();
            let owner = thread::spawn({
                let table = Arc::clone(&table);
                move || {
                    let me = token(there);
                    add(&table, 0, me) + add(&table, 1, me)
                }
            });
            take_over(&table, token(here));
            let added = add(&table, 0, token(here));
            assert_eq!(added, 1, "no other thread revokes it");
            let theirs = owner.join().expect("it does not panic");
            assert_eq!(total(&table, token(here)), 2 + added + theirs);
        });
    }

    /// As before, but the owner stays the owner, and goes on with what the revoker left.
    #[test]
    fn an_owner_sees_what_a_revoker_did() {
        loom::model(|| {
            let (table, [here, there]) = owned();
            let owner = thread::spawn({
                let table = Arc::clone(&table);
                move || {
                    let me = token(there);
                    add(&table, 0, me) + add(&table, 0, me)
                }
            });
            let me = token(here);
            let next = NextOwner::Former;
            table.revoker().revoke(Some(me), next, 0..2, |(), value| *value += 1);
            let theirs = owner.join().expect("it does not panic");
            assert_eq!(total(&table, me), 2 + theirs);
        });
    }

    /// The owner ends, and another thread takes its slots over, without a heavy fence.
    #[test]
    fn a_revoker_sees_what_an_ended_owner_did() {
        loom::model(|| {
            let (table, [here, there]) = owned();
            let owner = thread::spawn({
                let table = Arc::clone(&table);
                move || {
                    let added = add(&table, 0, token(there));
                    assert_eq!(added, 1, "its slot is not revoked before its end");
                    there.end();
                }
            });
            let me = token(here);
            let mut revoker = table.revoker();
            while revoker.slots()[0].has_owner() {
                yield_now();
            }
            revoker.revoke(Some(me), NextOwner::Thread(me), 0..2, |(), value| *value += 1);
            drop(revoker);
            assert_eq!(add(&table, 0, me), 1);
            assert_eq!(total(&table, me), 4);
            owner.join().expect("it does not panic");
        });
    }

    /// As the first, but the revoker is exiting, and has no token to be compared with owners by.
    #[test]
    fn an_exiting_revoker_and_an_owner_are_never_inside_together() {
        loom::model(|| {
            let (table, [here, there]) = owned();
            let owner = thread::spawn({
                let table = Arc::clone(&table);
                move || add(&table, 0, token(there)) + add(&table, 0, token(there))
            });
            let take = |(): &(), value: &mut u32| *value += 1;
            table.revoker().revoke(None, NextOwner::None, 0..2, take);
            let theirs = owner.join().expect("it does not panic");
            assert_eq!(total(&table, token(here)), 2 + theirs);
        });
    }

    /// The owner ends, and a new thread may get its record before the revoker looks: then the
    /// record's new id shows the end.
    #[test]
    fn a_revoker_sees_what_an_owner_did_whose_record_is_reused() {
        loom::model(|| {
            let (table, records) = (two(), Arc::new(Mutex::new(ThreadRecords::none())));
            let make =
                |records: &Mutex<ThreadRecords>| records.lock().expect("no thread panics").make();
            let (here, there) = (make(&records), make(&records));
            let owner = NextOwner::Thread(token(there));
            table.revoker().revoke(None, owner, 0..2, |(), _| {});
            let owner = thread::spawn({
                let (table, records) = (Arc::clone(&table), Arc::clone(&records));
                move || {
                    let added = add(&table, 0, token(there));
                    assert_eq!(added, 1, "its slot is not revoked before its end");
                    let mut records = records.lock().expect("no thread panics");
                    records.end(there);
                    records.make();
                }
            });
            let me = token(here);
            let mut revoker = table.revoker();
            while revoker.slots()[0].has_owner() {
                yield_now();
            }
            let mut value = 0;
            let look = |(): &(), its: &mut u32| value += *its;
            revoker.revoke(Some(me), NextOwner::Thread(me), [0], look);
            assert_eq!(value, 1);
            drop(revoker);
            owner.join().expect("it does not panic");
        });
    }

    /// Two threads revoke each other's slots, and enter them if they can.
    #[test]
    fn owners_that_take_turns_see_what_the_other_did() {
        loom::model(|| {
            let (table, [here, there]) = (two(), two_threads());
            let other = thread::spawn({
                let table = Arc::clone(&table);
                move || {
                    let me = token(there);
                    take_over(&table, me);
                    add(&table, 0, me)
                }
            });
            let me = token(here);
            take_over(&table, me);
            let added = add(&table, 0, me);
            let theirs = other.join().expect("it does not panic");
            assert_eq!(total(&table, me), 4 + added + theirs);
        });
    }
}
