//! Biased cells: one thread at a time owns a cell and enters it without an atomic
//! read-modify-write. Any other thread must revoke the bias before it may use the value.
//!
//! This is biased locking over an asymmetric Dekker handshake:
//!
//! ```text
//!     owner (every use)                     revoker (rarely)
//!     flag.is_inside = true                 owner = REVOKING
//!     light fence (compiler only)           heavy fence (membarrier(2))
//!     owner == me ?  -> use the value       wait until !flag.is_inside -> use the value
//!     flag.is_inside = false                owner = the next owner, or REVOKED
//! ```
//!
//! The fences keep each side's load behind its store, so at least one side sees the other's store.
//! The revoker pays for both fences.
//!
//! Where the flag is, and what a revocation leaves, is the cell's [`Bias`]:
//!
//! - [`FirstThread`]: the flag is in the cell, and the cell has at most one owner ever. A
//!   revocation is never undone. Entries of different cells may nest.
//! - [`PerThread`]: the flag is in the thread's [`ThreadRecord`], so a cell can change owners: a
//!   former owner that still tries to enter raises its own flag and not that of its successor. A
//!   thread is inside one such cell at a time.
//!
//! Sources: Russell and Detlefs, "Eliminating synchronization-related atomic operations with biased
//! locking and bulk rebiasing" (OOPSLA 2006); Dice, Huang and Yang, "Asymmetric Dekker
//! synchronization" (2001); `membarrier(2)`.

use std::fmt;

use super::fence::Fences;
use super::primitives::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use super::primitives::{UnsafeCell, spin_until};
use super::thread_number::ThreadNumber;
use super::thread_token::{ThreadRecord, ThreadToken};

#[cfg(all(test, rmm_loom))]
mod models;

/// The most cells that are revoked together.
pub(super) const MAX_CELLS: usize = 512;

/// Owner word: no thread owns the cell.
const NO_OWNER: u64 = 0;
/// Owner word: a revocation is in progress.
const REVOKING: u64 = u64::MAX - 1;
/// Owner word: the cell was revoked for good.
const REVOKED: u64 = u64::MAX;

/// Which threads may own a cell, and where an owner says that it is inside.
///
/// # Safety
/// 1. `id(me)` belongs to the calling thread alone: no other thread has it, before or after. It is
///    none of the reserved owner words, and a `Thread` is used on its thread only.
/// 2. While an id is in the owner word, and whenever its thread enters after it has been, no other
///    thread writes the flag `flag(me)` of that thread.
/// 3. For an id that is or was in the owner word, `owner_flag` returns the flag that `flag` returns
///    to that thread; or `None` if the thread has ended, and then its last write of the flag
///    happens-before the return.
pub(crate) unsafe trait Bias {
    /// The calling thread.
    type Thread: Copy;
    /// What a revocation leaves the cell to.
    type Next;

    fn id(me: Self::Thread) -> u64;

    fn flag(&self, me: Self::Thread) -> &AtomicBool;

    fn owner_flag(&self, owner: u64) -> Option<&AtomicBool>;

    /// The owner word with which a revocation ends. Called by the revoker.
    fn next_owner(&self, former: u64, next: Self::Next) -> u64;
}

/// What a revocation leaves a cell to that can change owners.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NextOwner {
    None,
    Thread(ThreadToken),
    /// The same as before, if any.
    Former,
}

/// The first thread that comes owns the cell, until another revokes that for good.
///
/// # Invariant
/// At most one id is ever in the owner word: it gets there from [`NO_OWNER`], which is the first
/// word and never follows another.
#[derive(Debug, Default)]
pub(crate) struct FirstThread {
    is_inside: AtomicBool,
}

/// The cell is given to one thread after another.
#[derive(Debug, Default)]
pub(crate) struct PerThread {
    /// The record of the last owner, or null.
    ///
    /// # Invariant
    /// Null, or from a `&'static ThreadRecord`. Written by a revoker, which then makes that
    /// record's thread the owner.
    record: AtomicPtr<ThreadRecord>,
}

// SAFETY: 1. `ThreadNumber` is `!Send` and comes from a counter that starts at 1 and cannot reach
// the reserved words. 2. Only `Owned::enter` writes the flag, and an `Owned` is of a thread whose
// id has been in the owner word: the same thread for the cell's whole life (the type's invariant).
// 3. There is one flag.
unsafe impl Bias for FirstThread {
    type Thread = ThreadNumber;
    type Next = ();

    #[inline]
    fn id(me: ThreadNumber) -> u64 {
        me.get()
    }

    #[inline]
    fn flag(&self, _: ThreadNumber) -> &AtomicBool {
        &self.is_inside
    }

    fn owner_flag(&self, _: u64) -> Option<&AtomicBool> {
        Some(&self.is_inside)
    }

    fn next_owner(&self, _: u64, (): ()) -> u64 {
        REVOKED
    }
}

// SAFETY: 1. Records get ids from a counter that starts at 1, each once; `ThreadToken` is `!Send`
// and not kept beyond its thread's end. 2. The flag is in the record of a thread, which alone
// writes it, whatever cells it owns. 3. `record` is that of the last owner (the field's invariant).
// If the record's id is another, that thread has ended, and the acquire of the id in `is` sees the
// release with which the end, or the next thread of the record, replaced it.
unsafe impl Bias for PerThread {
    type Thread = ThreadToken;
    type Next = NextOwner;

    #[inline]
    fn id(me: ThreadToken) -> u64 {
        me.id()
    }

    #[inline]
    fn flag(&self, me: ThreadToken) -> &AtomicBool {
        &me.record().is_inside
    }

    fn owner_flag(&self, owner: u64) -> Option<&AtomicBool> {
        // Acquire: the record is seen as it was made.
        let record = self.record.load(Ordering::Acquire);
        // SAFETY: null, or from a `&'static ThreadRecord` (the field's invariant).
        let record = unsafe { record.as_ref() }?;
        record.is(owner).then_some(&record.is_inside)
    }

    fn next_owner(&self, former: u64, next: NextOwner) -> u64 {
        match next {
            NextOwner::None => NO_OWNER,
            NextOwner::Former => former,
            NextOwner::Thread(thread) => {
                let record = std::ptr::from_ref(thread.record()).cast_mut();
                // Release: the record is seen as it was made.
                self.record.store(record, Ordering::Release);
                thread.id()
            }
        }
    }
}

/// A value that its owner enters without an atomic read-modify-write, and beside it a header that
/// any thread may read. On cache lines of its own (128 bytes, since processors prefetch pairs of
/// lines). What every entry reads comes first, and is seldom written; the header comes last, and
/// may end with what owners write.
#[repr(C, align(128))]
pub(crate) struct BiasedCell<H, T, B> {
    /// The id of the thread that may enter, or one of the reserved words.
    ///
    /// # Invariant
    /// 1. Becomes [`REVOKING`] by the compare-and-swap of one thread, which alone changes it until
    ///    its revocation ends.
    /// 2. Never changes once it is [`REVOKED`].
    owner: AtomicU64,
    bias: B,
    /// # Invariant
    /// References to it exist in [`Owned::enter`], on the owner's thread while it is inside, and in
    /// [`revoke`], after the owner was seen outside and before the owner word changes.
    value: UnsafeCell<T>,
    /// The owner before the current revocation, or the last one. Used by revokers alone.
    former_owner: AtomicU64,
    fences: Fences,
    header: H,
}

/// A cell that belonged to the calling thread a moment ago.
pub(crate) struct Owned<'a, H, T, B: Bias> {
    cell: &'a BiasedCell<H, T, B>,
    /// # Invariant
    /// Its id has been in the cell's owner word.
    me: B::Thread,
}

/// Whose a cell of the first thread is.
pub(crate) enum Ownership<'a, H, T> {
    Mine(Owned<'a, H, T, FirstThread>),
    AnotherThread,
    /// No thread's any more: the revocation has ended.
    Revoked,
}

/// A raised flag, which is lowered when this is dropped.
#[derive(Debug)]
pub(crate) struct EnterGuard<'a>(&'a AtomicBool);

/// The cells that a thread has under revocation. Those that are left when this is dropped, by a
/// panic, stay their owners'.
struct Revocation<'a, H, T, B> {
    cells: &'a [BiasedCell<H, T, B>],
    /// A bit per cell. An array of cells would cost each revocation a `memset` of its size.
    ///
    /// # Invariant
    /// If a bit is set, that cell's owner word is [`REVOKING`], by this thread.
    taken: [u64; MAX_CELLS / 64],
}

// SAFETY: the value is used by one thread at a time, from which it may be moved: what `Send`
// allows. Between two uses lie a release and an acquire: of the owner word from a revoker to an
// owner or the next revoker, of the flag or of its thread's end from an owner to a revoker. The
// other fields are shared.
unsafe impl<H: Sync, T: Send, B: Sync> Sync for BiasedCell<H, T, B> {}

// A panic leaves the value as it leaves that of a mutex whose poison is ignored.
impl<H, T, B> std::panic::RefUnwindSafe for BiasedCell<H, T, B> {}

impl Drop for EnterGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: the revoker sees what was done inside.
        self.0.store(false, Ordering::Release);
    }
}

impl<H, T, B> Drop for Revocation<'_, H, T, B> {
    fn drop(&mut self) {
        while let Some(index) = self.first_taken() {
            let former_owner = self.cells[index].former_owner.load(Ordering::Relaxed);
            self.end(index, former_owner);
        }
    }
}

impl<H, T, B> Revocation<'_, H, T, B> {
    fn first_taken(&self) -> Option<usize> {
        let word = self.taken.iter().position(|&bits| bits != 0)?;
        Some(word * 64 + self.taken[word].trailing_zeros() as usize)
    }

    /// Ends the revocation of a cell, which has this owner then.
    fn end(&mut self, index: usize, owner: u64) {
        self.taken[index / 64] &= !(1 << (index % 64));
        // Release: the next owner or revoker sees what was done here.
        self.cells[index].owner.store(owner, Ordering::Release);
    }
}

impl<H, T, B: Bias + Default> BiasedCell<H, T, B> {
    /// A cell that no thread owns.
    pub(crate) fn new(header: H, value: T, fences: Fences) -> Self {
        let [owner, former_owner] = [NO_OWNER; 2].map(AtomicU64::new);
        let (bias, value) = (B::default(), UnsafeCell::new(value));
        Self { owner, bias, value, former_owner, fences, header }
    }
}

impl<H, T, B: Bias> BiasedCell<H, T, B> {
    #[inline]
    pub(crate) fn header(&self) -> &H {
        &self.header
    }

    /// The cell as the calling thread's, if that is its owner.
    #[inline]
    pub(crate) fn owned_by(&self, me: B::Thread) -> Option<Owned<'_, H, T, B>> {
        let is_owner = self.owner.load(Ordering::Relaxed) == B::id(me);
        is_owner.then_some(Owned { cell: self, me })
    }

    /// The flag of an owner that may be inside.
    fn flag_of(&self, owner: u64) -> Option<&AtomicBool> {
        if owner == NO_OWNER { None } else { self.bias.owner_flag(owner) }
    }

    /// Makes this thread the revoker, and returns the former owner; `None` if the cell was revoked
    /// for good, and then what was done at that is seen.
    fn take(&self) -> Option<u64> {
        loop {
            let owner = self.owner.load(Ordering::Acquire);
            if owner == REVOKED {
                return None;
            }
            if owner == REVOKING {
                spin_until(|| self.owner.load(Ordering::Relaxed) != REVOKING);
                continue;
            }
            // Acquire: what the last revoker did is seen.
            let exchange =
                self.owner.compare_exchange(owner, REVOKING, Ordering::Acquire, Ordering::Relaxed);
            if exchange.is_ok() {
                self.former_owner.store(owner, Ordering::Relaxed);
                return Some(owner);
            }
        }
    }
}

impl<H, T> BiasedCell<H, T, FirstThread> {
    /// Whose the cell is: the calling thread's, if it is the first. `me` returns that thread.
    #[inline]
    pub(crate) fn claim(&self, me: impl FnOnce() -> ThreadNumber) -> Ownership<'_, H, T> {
        // Acquire: what the revoker did is seen.
        let owner = self.owner.load(Ordering::Acquire);
        if owner == REVOKED {
            return Ownership::Revoked;
        }
        let me = me();
        if owner == me.get() || (owner == NO_OWNER && self.become_owner(me)) {
            Ownership::Mine(Owned { cell: self, me })
        } else {
            Ownership::AnotherThread
        }
    }

    #[cold]
    fn become_owner(&self, me: ThreadNumber) -> bool {
        let (me, relaxed) = (me.get(), Ordering::Relaxed);
        self.owner.compare_exchange(NO_OWNER, me, relaxed, relaxed).is_ok()
    }
}

impl<H, T> BiasedCell<H, T, PerThread> {
    /// Whether the cell has an owner that has not ended. If not, what the last one did is seen.
    pub(crate) fn has_owner(&self) -> bool {
        self.flag_of(self.owner.load(Ordering::Acquire)).is_some()
    }
}

impl<'a, H, T, B: Bias> Owned<'a, H, T, B> {
    /// Enters the cell, until the guard is dropped. `None` if the bias was revoked, or if this
    /// thread is inside already: of this cell, or of any cell whose flag is the thread's.
    #[inline]
    pub(crate) fn stay(&self) -> Option<EnterGuard<'a>> {
        let &Self { cell, me } = self;
        let flag = cell.bias.flag(me);
        // Relaxed: this thread alone writes it.
        if flag.load(Ordering::Relaxed) {
            return None;
        }
        flag.store(true, Ordering::Relaxed);
        let inside = EnterGuard(flag);
        cell.fences.light();
        // Acquire: what the revoker that made this thread the owner did is seen.
        if cell.owner.load(Ordering::Acquire) != B::id(me) {
            return None;
        }
        Some(inside)
    }

    /// Acts on the value. Gives the action back if the thread cannot [enter](Self::stay).
    #[inline]
    pub(crate) fn enter<R, A: FnOnce(&mut T) -> R>(self, act: A) -> Result<R, A> {
        let Some(_inside) = self.stay() else { return Err(act) };
        let cell = self.cell;
        // SAFETY: no other reference to the value exists until the guard lowers the flag.
        // 1. Of owners: the id is this thread's alone (rule 1 of `Bias`), which was not inside, as
        //    its flag was down, and that no other thread lowers (rule 2).
        // 2. Of revokers before: the acquire in `stay` read the word with which the last one ended.
        // 3. Of revokers after: that load did not read their `REVOKING`. A light fence lies
        //    between the store of the flag and that load, a heavy one between `REVOKING` and the
        //    revoker's load of the flag, which is the same flag (rule 3): so the revoker sees it
        //    raised, and waits.
        Ok(cell.value.with_mut(|value| act(unsafe { &mut *value })))
    }
}

/// Revokes the cells with these indices, each of them named once and below [`MAX_CELLS`], all under
/// one heavy fence. Acts on each once its owner is outside, and leaves it to what the action
/// returns. Cells that were revoked for good are passed over; cells under another revocation are
/// waited for.
///
/// `me` is the calling thread, or `None` if that cannot own cells (any more). It must not be inside
/// one of the cells, since it would wait for itself.
pub(crate) fn revoke<H, T, B: Bias>(
    cells: &[BiasedCell<H, T, B>],
    me: Option<B::Thread>,
    wanted: impl IntoIterator<Item = usize>,
    mut act: impl FnMut(&H, &mut T) -> B::Next,
) {
    let mut revocation = Revocation { cells, taken: [0; MAX_CELLS / 64] };
    let mut fences: Option<Fences> = None;
    for index in wanted {
        let cell = &cells[index];
        let Some(former_owner) = cell.take() else { continue };
        revocation.taken[index / 64] |= 1 << (index % 64);
        let is_mine = me.is_some_and(|me| B::id(me) == former_owner);
        if !is_mine && cell.flag_of(former_owner).is_some() {
            fences = Some(fences.map_or(cell.fences, |fences| fences.and(cell.fences)));
        }
    }
    if let Some(fences) = fences {
        fences.heavy();
    }
    while let Some(index) = revocation.first_taken() {
        let cell = &cells[index];
        let former_owner = cell.former_owner.load(Ordering::Relaxed);
        if let Some(flag) = cell.flag_of(former_owner) {
            // Acquire: what the owner did is seen.
            spin_until(|| !flag.load(Ordering::Acquire));
        }
        // SAFETY: no other reference to the value exists until the revocation of the cell ends.
        // 1. Of revokers: the owner word is `REVOKING` by this thread, which alone changes it.
        // 2. Of an owner: none enters while the word is `REVOKING`. The former one has ended
        //    (rule 3 of `Bias`), or was seen outside by the load of its flag (rule 3). It does not
        //    enter after that: the heavy fence lies between `REVOKING` and that load, so its load
        //    of the owner word, if it raised the flag unseen, reads `REVOKING`. If it is this
        //    thread, or there is none, that needs no fence.
        let next = cell.value.with_mut(|value| act(&cell.header, unsafe { &mut *value }));
        revocation.end(index, cell.bias.next_owner(former_owner, next));
    }
}

impl<H, T> fmt::Debug for BiasedCell<H, T, FirstThread> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_revoked = self.owner.load(Ordering::Relaxed) == REVOKED;
        f.debug_struct("BiasedCell").field("is_revoked", &is_revoked).finish_non_exhaustive()
    }
}
