//! Thread caches: freed blocks per thread and stream, in front of the pool's lock (as tcmalloc's).
//!
//! ```text
//!                 stream 1     stream 2     stream 3 ...
//!     thread A    slot 1       slot 2       slot 3            first slots: one per stream
//!     thread B    slot 128+1   slot 128+2   slot 128+3        further slots: eight per thread
//!
//!     slot = header (stream, counters) + BiasedCell (owner: a thread) -> Cache (free lists by class)
//! ```
//!
//! A block that is freed on a stream may be used by that stream's next work at once. So the thread
//! that frees it caches it, and serves its next request for the same stream and size class from
//! there, without an atomic read-modify-write: it owns the slot's [`BiasedCell`]. A thread that
//! finds no other free memory revokes all slots and flushes their caches to the heap, so no block
//! is out of another thread's reach.
//!
//! A slot belongs to one thread, until that ends or another has long missed it, and to one stream.
//! Cached blocks have no release point: they get the one that is open when they are flushed, which
//! is later than that of their free, and therefore safe.
//!
//! [`BiasedCell`]: crate::sync::biased::BiasedCell

mod cache;
mod classes;
mod crowd;
mod large;
mod large_demand;
#[cfg(all(test, rmm_loom))]
mod models;
mod now;
mod own;
mod slot;
#[cfg(all(test, not(rmm_loom)))]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rmm_core::{StreamId, StreamRef};

use crate::sync::biased::{NextOwner, Owned, PerThread};
use crate::sync::biased_table::{BiasedTable, Slot};
use crate::sync::fence::Fences;
use crate::sync::thread_token::ThreadToken;
use cache::{Cache, Counters};
pub(super) use cache::{CacheCounts, Put};
pub(super) use classes::{CLASSES, Class};
use crowd::Crowd;
pub(super) use large_demand::LargeDemand;
use slot::{SlotHeader, Wanted};

/// First slots, of the thread that comes first on a stream: mostly more than there are streams at
/// work, so that few streams share one.
const FIRST_SLOTS: usize = if cfg!(rmm_loom) { 1 } else { 128 };
/// Bounds the rows of further slots: threads whose numbers differ by a multiple share a row.
const THREAD_ROWS: usize = if cfg!(rmm_loom) { 1 } else { 32 };
/// Further slots in a row: streams whose ids differ by a multiple share one.
const SLOTS_PER_ROW: usize = if cfg!(rmm_loom) { 1 } else { 8 };
const SLOTS: usize = FIRST_SLOTS + THREAD_ROWS * SLOTS_PER_ROW;

/// Bounds the bytes of a cache to this fraction of the pool, since cached blocks do not coalesce.
const CACHE_FRACTION: u64 = 32;

/// Which blocks are cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CachePolicy {
    Off,
    /// Those of up to 1 MiB by size class, and a few larger ones, since cached blocks do not
    /// coalesce.
    SizeClasses,
    /// All: they have this size.
    OneSize(u64),
}

/// A slot that belonged to the calling thread a moment ago.
type OwnedSlot<'a> = (&'a SlotHeader, Owned<'a, SlotHeader, Option<Box<Cache>>, PerThread>);

/// The outcome of an allocation from a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Take {
    Done(u64),
    /// The thread has a cache for the stream, without such a block.
    Missed,
    /// As [`Missed`](Self::Missed), many times since the thread's last free.
    Short,
    /// As [`Missed`](Self::Missed), but there are such blocks, for which an event should be
    /// recorded on the stream.
    Unfenced,
    /// The thread has no cache for the stream.
    NotHere,
}

/// The thread caches of a pool.
#[derive(Debug)]
pub(super) struct Caches {
    /// A cache is made at its slot's first use, and kept.
    table: BiasedTable<SlotHeader, Option<Box<Cache>>, SLOTS>,
    policy: CachePolicy,
    /// Live blocks that are smaller than their class. While there are any, the size of a block that
    /// is freed is known to the heap alone.
    undersized_blocks: AtomicUsize,
    /// The most bytes that a cache may hold.
    capacity: AtomicU64,
    /// Whether large blocks are cached. Changed with the pool's lock held. A thread may learn of it
    /// late: then a block goes past the caches, or into one.
    keeps_large: AtomicBool,
    crowd: Crowd,
}

impl CachePolicy {
    /// The classes of all blocks that are cached.
    fn classes(self) -> impl Iterator<Item = Class> {
        let only = if let Self::OneSize(unit) = self { Some(Class::only(unit)) } else { None };
        let all = (self == Self::SizeClasses).then(Class::all);
        only.into_iter().chain(all.into_iter().flatten())
    }
}

impl Caches {
    pub(super) fn new(policy: CachePolicy, fences: Fences) -> Self {
        Self {
            table: BiasedTable::new(fences, Default::default),
            policy,
            undersized_blocks: AtomicUsize::new(0),
            capacity: AtomicU64::new(0),
            keeps_large: AtomicBool::new(true),
            crowd: Crowd::default(),
        }
    }

    /// The class of a request for `size` bytes, which are not zero, if such blocks are cached.
    #[inline]
    pub(super) fn class(&self, size: u64) -> Option<Class> {
        match self.policy {
            CachePolicy::SizeClasses => Class::holding(size),
            CachePolicy::OneSize(unit) => (size <= unit).then_some(Class::only(unit)),
            CachePolicy::Off => None,
        }
    }

    /// The slot that a stream has for the thread that comes first. Neighbours in number have
    /// neighbouring slots: few streams share one.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are all that is used")]
    #[inline]
    fn first_slot(stream: StreamId) -> usize {
        stream.get() as usize % FIRST_SLOTS
    }

    /// The slot in the thread's row that a stream may have as well.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are all that is used")]
    #[inline]
    fn further_slot(stream: StreamId, me: ThreadToken) -> usize {
        let row = me.number() % THREAD_ROWS * SLOTS_PER_ROW;
        FIRST_SLOTS + row + stream.get() as usize % SLOTS_PER_ROW
    }

    /// The slot of the stream that belongs to this thread. Another thread may revoke it at any
    /// time.
    #[inline]
    fn owned(&self, me: ThreadToken, stream: StreamId) -> Option<OwnedSlot<'_>> {
        let slots = self.table.slots()?;
        let owned = |index: usize| {
            let slot = &slots[index];
            let owned = slot.owned_by(me).filter(|_| slot.header().is_of(stream))?;
            Some((slot.header(), owned))
        };
        owned(Self::first_slot(stream)).or_else(|| owned(Self::further_slot(stream, me)))
    }

    /// Enters this thread's cache for the stream, if there is one.
    #[inline]
    fn with<R>(&self, stream: StreamId, act: impl FnOnce(&mut Cache, &Counters) -> R) -> Option<R> {
        self.with_as(ThreadToken::current()?, stream, act)
    }

    /// As [`with`](Self::with); `me` is the calling thread.
    #[inline]
    fn with_as<R>(
        &self,
        me: ThreadToken,
        stream: StreamId,
        act: impl FnOnce(&mut Cache, &Counters) -> R,
    ) -> Option<R> {
        let Some((header, owned)) = self.owned(me, stream) else {
            let first = &self.table.slots()?[Self::first_slot(stream)];
            return first.header().with_shared(stream, act);
        };
        let acted = owned.enter(|cache| {
            let cache = cache.as_mut().filter(|_| header.is_of(stream))?;
            Some(act(cache, &header.counters))
        });
        acted.ok()?
    }

    /// Takes a block of the class that was freed on the stream by this thread.
    #[inline]
    pub(super) fn take(&self, stream: StreamId, class: Class) -> Take {
        let take = |cache: &mut Cache, counters: &_| match cache.take(class, counters) {
            Some(address) => Take::Done(address),
            None => Self::miss(cache, class),
        };
        self.with(stream, take).unwrap_or(Take::NotHere)
    }

    /// Counts a miss, and says what should be done about it. Out of line, so that a hit stays
    /// short.
    #[inline(never)]
    fn miss(cache: &mut Cache, class: Class) -> Take {
        cache.note_miss();
        if cache.is_fence_due(class) {
            Take::Unfenced
        } else if cache.is_short(class) {
            Take::Short
        } else {
            Take::Missed
        }
    }

    /// Makes the young blocks of this thread's cache for the stream available: an event was
    /// recorded on the stream since the thread's last free. The pool's lock is held since before
    /// the event, so no other thread has come to own the cache meanwhile, and the legacy default
    /// stream's are never shared: no block in it was freed after the event.
    #[cold]
    pub(super) fn promote(&self, stream: StreamId) {
        self.with(stream, |cache, _| cache.promote());
    }

    /// Caches a block that is freed on the stream, if this thread has a cache for that. `class` is
    /// that of the size that was requested.
    #[inline]
    pub(super) fn put(&self, stream: StreamId, class: Class, address: u64) -> Put {
        // Relaxed: the thread that allocated an undersized block counted it before it handed the
        // block to the thread that frees it.
        if self.undersized_blocks.load(Ordering::Relaxed) > 0 {
            return Put::NotHere;
        }
        let capacity = self.capacity();
        let put = |cache: &mut Cache, counters: &_| cache.put(class, address, capacity, counters);
        self.with(stream, put).unwrap_or(Put::NotHere)
    }

    /// Puts a block from the heap into this thread's cache for the stream, if there is room.
    pub(super) fn add(&self, stream: StreamId, class: Class, address: u64) -> bool {
        let capacity = self.capacity();
        let add = |cache: &mut Cache, counters: &_| cache.add(class, address, capacity, counters);
        self.with(stream, add).unwrap_or(false)
    }

    /// Whether a block of the class that is freed on the stream is worth caching now.
    #[inline]
    pub(super) fn keeps(&self, stream: StreamId, class: Class) -> bool {
        self.keeps_large() || !Self::may_pass_by(stream, class)
    }

    /// Whether blocks of the class go past the stream's caches while they serve few requests. Not
    /// those of the legacy default stream: in the heap they would coalesce with blocks that wait
    /// for no event, and all would wait.
    #[inline]
    pub(super) fn may_pass_by(stream: StreamId, class: Class) -> bool {
        class.is_large() && stream != StreamRef::legacy().id()
    }

    /// Whether large blocks are worth caching now.
    #[inline]
    pub(super) fn keeps_large(&self) -> bool {
        self.keeps_large.load(Ordering::Relaxed)
    }

    /// Sets what [`keeps_large`](Self::keeps_large) returns. The pool's lock is held.
    pub(super) fn keep_large(&self, keeps: bool) {
        self.keeps_large.store(keeps, Ordering::Relaxed);
    }

    /// How many large blocks all caches have handed out so far.
    pub(super) fn large_hits(&self) -> u64 {
        let hits = |slot: &Slot<SlotHeader, _>| slot.header().counters.large_taken();
        self.table.iter().map(hits).fold(0, u64::wrapping_add)
    }

    /// Whether threads use so many streams that calls pass the caches by for now. Counts this call.
    ///
    /// The pool's lock is held.
    #[inline]
    pub(super) fn are_passed_by(&self) -> bool {
        self.crowd.pass()
    }

    /// The most bytes that a cache may hold.
    #[inline]
    pub(super) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Bounds each cache to a fraction of the pool's reserved bytes.
    pub(super) fn set_capacity_from(&self, reserved: u64) {
        self.capacity.store(reserved / CACHE_FRACTION, Ordering::Relaxed);
    }

    /// Counts a block that is handed out and smaller than its class.
    pub(super) fn note_undersized(&self) {
        self.undersized_blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts such a block no longer, once it is freed.
    pub(super) fn forget_undersized(&self) {
        self.undersized_blocks.fetch_sub(1, Ordering::Relaxed);
    }

    /// Flushes up to `N` blocks of this thread's cache for the stream, those of `class` before
    /// others. Returns them, and how many of them are of the class.
    #[cold]
    pub(super) fn flush<'a, const N: usize>(
        &self,
        stream: StreamId,
        class: Class,
        flushed: &'a mut [u64; N],
    ) -> (&'a [u64], usize) {
        let (mut all, mut of_class) = (0, 0);
        self.with(stream, |cache, counters| {
            cache.flush(class, self.policy.classes(), N, counters, |which, address| {
                flushed[all] = address;
                all += 1;
                of_class += usize::from(which == class);
            });
        });
        (&flushed[..all], of_class)
    }

    /// Makes a cache for the stream on this thread, where there is none. If that takes the slot of
    /// another stream, its blocks are flushed to `to`.
    ///
    /// The stream has a free list, and the pool's lock is held.
    #[cold]
    pub(super) fn make(&self, stream: StreamId, to: impl FnMut(StreamId, u64)) {
        if let Some(me) = ThreadToken::current() {
            self.make_as(me, stream, to);
        }
    }

    /// As [`make`](Self::make); `me` is the calling thread.
    fn make_as(&self, me: ThreadToken, stream: StreamId, mut to: impl FnMut(StreamId, u64)) {
        let candidates = [Self::first_slot(stream), Self::further_slot(stream, me)];
        let mut revoker = self.table.revoker();
        let slots = revoker.slots();
        let is_mine = |index: usize| {
            slots[index].owned_by(me).is_some() && slots[index].header().is_of(stream)
        };
        let [first, further] = candidates;
        if candidates.into_iter().any(is_mine) {
            return;
        }
        let is_free = |&index: &usize| {
            let header = slots[index].header();
            !header.is_shared() && (!slots[index].has_owner() || header.is_unused())
        };
        let mut is_shared = false;
        let mut free = candidates.into_iter().find(is_free);
        if free != Some(first) && slots[first].header().is_of(stream) {
            // It is another thread's, or all threads' and one is inside. If a task has changed
            // threads, its blocks come along. If threads use the stream at the same time, each gets
            // a cache of its own.
            let is_all_threads = slots[first].header().is_shared();
            match slots[first].header().note_wanted(me.number()) {
                Wanted::ForTheFirstTime if !is_all_threads => return,
                Wanted::AndIdle if is_all_threads => return,
                Wanted::AndIdle => {
                    free = Some(first);
                    // `promote` relies on an owner.
                    is_shared = stream != StreamRef::legacy().id()
                        && slots[first].header().is_shared_at_change();
                }
                Wanted::ForTheFirstTime | Wanted::AndBusy | Wanted::ByMany => {}
            }
        }
        if free.is_none() && slots[further].owned_by(me).is_some() {
            self.crowd.note(|| self.totals().1.taken);
        }
        let stolen = || slots[further].header().is_stolen_at_miss().then_some(further);
        let Some(slot) = free.or_else(stolen) else { return };
        let is_slot = |index, _: &SlotHeader| index == slot;
        let next = if is_shared { NextOwner::None } else { NextOwner::Thread(me) };
        revoker.revoke(Some(me), next, is_slot, |header, slot| {
            let cache = slot.get_or_insert_with(|| Box::new(Cache::new(stream)));
            header.host_bytes.store(cache.bookkeeping_bytes(), Ordering::Relaxed);
            // A thread that has ended leaves its blocks to the next one on the same stream.
            if !header.is_of(stream) {
                self.flush_cache(header, cache, &mut to);
                cache.pass_to(stream);
                header.assign(Some(stream));
            }
            if is_shared {
                header.share(slot.take());
            }
        });
    }

    /// Flushes all blocks of a cache.
    fn flush_cache(
        &self,
        header: &SlotHeader,
        cache: &mut Cache,
        mut to: impl FnMut(StreamId, u64),
    ) {
        let stream = cache.stream();
        let mut classes = self.policy.classes();
        if let Some(class) = classes.next() {
            let to = |_, address| to(stream, address);
            cache.flush(class, classes, usize::MAX, &header.counters, to);
        }
    }

    /// Flushes the caches of all streams, or of one, whose slots are free for others then.
    ///
    /// The pool's lock is held, so no thread makes new ones.
    #[cold]
    pub(super) fn flush_all(&self, stream: Option<StreamId>, to: impl FnMut(StreamId, u64)) {
        self.flush_all_as(ThreadToken::current(), stream, to);
    }

    /// As [`flush_all`](Self::flush_all); `me` is the calling thread, unless that is exiting.
    fn flush_all_as(
        &self,
        me: Option<ThreadToken>,
        stream: Option<StreamId>,
        mut to: impl FnMut(StreamId, u64),
    ) {
        let is_wanted = |_, header: &SlotHeader| {
            !header.is_unused() && stream.is_none_or(|stream| header.is_of(stream))
        };
        let Some(mut revoker) = self.table.revoker_of_made() else { return };
        revoker.revoke(me, NextOwner::None, is_wanted, |header, cache| {
            header.assign(None);
            if let Some(shared) = header.unshare() {
                *cache = Some(shared);
            }
            if let Some(cache) = cache {
                self.flush_cache(header, cache, &mut to);
            }
        });
    }

    /// Frees the host memory of the caches in unused slots.
    pub(super) fn shrink(&self) {
        self.shrink_as(ThreadToken::current());
    }

    /// As [`shrink`](Self::shrink); `me` is the calling thread, unless that is exiting.
    fn shrink_as(&self, me: Option<ThreadToken>) {
        let is_unused = |_, header: &SlotHeader| header.is_unused();
        let free = |header: &SlotHeader, cache: &mut Option<_>| {
            *cache = None;
            header.host_bytes.store(0, Ordering::Relaxed);
        };
        let Some(mut revoker) = self.table.revoker_of_made() else { return };
        revoker.revoke(me, NextOwner::None, is_unused, free);
    }

    /// Whether a block of the class with this address is in one of the caches.
    pub(super) fn contain(&self, class: Class, address: u64) -> bool {
        let is_filled = |_, header: &SlotHeader| header.counters.bytes() > 0;
        let mut contains = false;
        let Some(mut revoker) = self.table.revoker_of_made() else { return false };
        revoker.revoke(ThreadToken::current(), NextOwner::Former, is_filled, |header, cache| {
            let contained = |cache: &Cache| cache.contains(class, address);
            contains |= cache.as_deref().is_some_and(contained)
                || header.look_at_shared(contained).unwrap_or(false);
        });
        contains
    }

    /// Host bytes of the table and of the caches in it.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        let host_bytes =
            |slot: &Slot<SlotHeader, _>| slot.header().host_bytes.load(Ordering::Relaxed);
        self.table.bytes() + self.table.iter().map(host_bytes).sum::<u64>()
    }

    /// Bytes of all cached blocks, and the counts of all caches so far. Other threads may change
    /// them meanwhile.
    pub(super) fn totals(&self) -> (u64, CacheCounts) {
        let mut bytes = 0;
        let mut counts = CacheCounts::default();
        for counters in self.table.iter().map(|slot| &slot.header().counters) {
            let more = counters.counts();
            bytes += counters.bytes();
            counts.taken += more.taken;
            counts.put += more.put;
        }
        (bytes, counts)
    }
}
