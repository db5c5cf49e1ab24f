//! What any thread may read of a cache's slot.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering};

use rmm_core::StreamId;

use super::cache::{Cache, Counters};
use crate::sync::primitives::atomic::AtomicU64 as StreamNumber;
use crate::sync::primitives::{self, Mutex};

/// Stands for no stream.
const NO_STREAM: u64 = 0;

// With the words of its cell it fits the two cache lines that the cell has.
#[cfg(not(rmm_loom))]
const _: () = assert!(size_of::<SlotHeader>() <= 88);

/// Misses of threads that cannot get a slot after which they take it from its owner: revoking a
/// bias costs as much as many calls that go past the caches.
pub(super) const STEAL_AFTER_MISSES: u32 = 64;

/// How often a slot changes hands between live threads before its cache is put under a lock: each
/// change costs a heavy fence, as much as a thousand uncontended locks.
const SHARED_AFTER: u8 = 3;

/// The header of a slot.
///
/// Threads read the first fields at each call, of first slots that are another's, too. `counters`,
/// which the owner writes at each call, and what a shared cache writes are on another cache line.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct SlotHeader {
    /// The id of the stream whose blocks are in the cache.
    ///
    /// # Invariant
    /// Changed only during a revocation of the slot, while its cache is empty. The stream has a
    /// free list, which is neither recycled nor retired before this is cleared.
    pub(super) stream: StreamNumber,
    /// The calls that the cache had served when it was [last looked at](Self::was_idle), modulo
    /// 2^32.
    calls_seen: AtomicU32,
    /// Whether the cache is in `shared`.
    is_shared: AtomicBool,
    /// How often the slot has come to another thread while its owner went on.
    changes: AtomicU8,
    /// The number of the thread that last wanted the slot, which another one owns, plus 1, modulo
    /// 2^16 ...
    wanted_by: AtomicU16,
    /// ... and the calls that the owner had made by then, modulo 2^32.
    calls_then: AtomicU32,
    /// Misses for which the slot was wanted, and another's.
    misses: AtomicU32,
    pub(super) counters: Counters,
    /// The cache of a stream whose tasks change threads over and over; then no thread owns the
    /// slot.
    shared: Mutex<Option<Box<Cache>>>,
}

impl SlotHeader {
    #[inline]
    pub(super) fn is_of(&self, stream: StreamId) -> bool {
        self.stream.load(Ordering::Relaxed) == stream.get()
    }

    pub(super) fn is_unused(&self) -> bool {
        self.stream.load(Ordering::Relaxed) == NO_STREAM
    }

    /// Assigns the slot to a stream, or to none. The caller revokes the slot, and its cache is
    /// empty or is emptied before the revocation ends.
    pub(super) fn assign(&self, stream: Option<StreamId>) {
        self.stream.store(stream.map_or(NO_STREAM, StreamId::get), Ordering::Relaxed);
    }

    /// Counts a change of owners; whether there were enough of them for the cache to be
    /// [shared](Self::share).
    pub(super) fn is_shared_at_change(&self) -> bool {
        self.changes.fetch_add(1, Ordering::Relaxed) + 1 >= SHARED_AFTER
    }

    /// Puts the cache under the lock, for all threads. The caller revokes the slot.
    pub(super) fn share(&self, cache: Option<Box<Cache>>) {
        *primitives::lock(&self.shared) = cache;
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Takes the cache from under the lock, if it is there. The caller revokes the slot.
    pub(super) fn unshare(&self) -> Option<Box<Cache>> {
        self.changes.store(0, Ordering::Relaxed);
        self.is_shared.store(false, Ordering::Relaxed);
        primitives::lock(&self.shared).take()
    }

    /// Whether the cache is under the lock.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// Enters the cache under the lock, if it is the stream's and no other thread is inside.
    pub(super) fn with_shared<R>(
        &self,
        stream: StreamId,
        act: impl FnOnce(&mut Cache, &Counters) -> R,
    ) -> Option<R> {
        if !self.is_shared() || !self.is_of(stream) {
            return None;
        }
        let mut shared = self.shared.try_lock().ok()?;
        let cache = shared.as_mut().filter(|cache| cache.stream() == stream)?;
        Some(act(cache, &self.counters))
    }

    /// Edits the cache under the lock, if it is there.
    pub(super) fn edit_shared(&self, edit: impl FnOnce(&mut Cache)) {
        if let Some(cache) = primitives::lock(&self.shared).as_deref_mut() {
            edit(cache);
        }
    }

    #[cfg(test)]
    /// Looks at the cache under the lock, if it is there.
    pub(super) fn look_at_shared<R>(&self, look: impl FnOnce(&Cache) -> R) -> Option<R> {
        let shared = primitives::lock(&self.shared);
        shared.as_deref().map(look)
    }

    /// Whether the cache has served no call since the last look.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits change as well")]
    pub(super) fn was_idle(&self) -> bool {
        let calls = self.counters.calls() as u32;
        self.calls_seen.swap(calls, Ordering::Relaxed) == calls
    }

    /// Counts a miss; whether there were enough of them to take the slot from its owner.
    pub(super) fn is_stolen_at_miss(&self) -> bool {
        let misses = self.misses.fetch_add(1, Ordering::Relaxed) + 1;
        misses.is_multiple_of(STEAL_AFTER_MISSES)
    }

    /// Notes that a thread wants the slot, which another one owns, for the slot's own stream. Says
    /// whether it should have it: the owner has made no call since the thread wanted it before. If
    /// a third thread wants it meanwhile, threads share the stream.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "equal numbers have equal low bits; others that do cost a move of the slot"
    )]
    pub(super) fn note_wanted(&self, thread: usize) -> Wanted {
        let (calls, thread) = (self.counters.calls() as u32, (thread as u16).wrapping_add(1));
        let wanted_by = self.wanted_by.load(Ordering::Relaxed);
        if wanted_by != thread && wanted_by != NO_THREAD {
            self.wanted_by.store(NO_THREAD, Ordering::Relaxed);
            return Wanted::ByMany;
        }
        if wanted_by != thread {
            self.wanted_by.store(thread, Ordering::Relaxed);
            self.calls_then.store(calls, Ordering::Relaxed);
            return Wanted::ForTheFirstTime;
        }
        if self.calls_then.swap(calls, Ordering::Relaxed) == calls {
            self.wanted_by.store(NO_THREAD, Ordering::Relaxed);
            Wanted::AndIdle
        } else {
            Wanted::AndBusy
        }
    }
}

/// Stands for no thread.
const NO_THREAD: u16 = 0;

/// A slot that another thread owns is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    ForTheFirstTime,
    /// The owner uses it.
    AndBusy,
    /// The owner does not use it: tasks have changed threads.
    AndIdle,
    /// A third thread wants it, too.
    ByMany,
}
