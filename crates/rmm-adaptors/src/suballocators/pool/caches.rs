//! Thread caches: freed blocks per thread and stream, in front of the pool's lock (as tcmalloc's).
//!
//! ```text
//!                 stream 1     stream 2     stream 3 ...
//!     thread A    slot 1       slot 2       slot 3            first slots: one per stream
//!     thread B    slot 256+1   slot 256+2   slot 256+3        further slots: eight per thread
//!
//!     slot = header (stream, counters) + BiasedCell (owner: a thread) -> Cache (free lists by class)
//! ```
//!
//! A block that is freed on a stream may be used by that stream's next work at once. So the thread
//! that frees it caches it, and serves its next request for the same stream and size class from
//! there, without an atomic read-modify-write: it owns the slot's [`BiasedCell`]. A thread that
//! finds no other free memory, and may not grow the pool, revokes all slots and flushes their
//! caches to the heap, so no block is out of another thread's reach.
//!
//! A slot belongs to one thread, until that ends or another has long missed it, and to one stream.
//! Cached blocks have no release point: they get the one that is open when they are flushed, which
//! is later than that of their free, and therefore safe.
//!
//! [`BiasedCell`]: crate::sync::biased::BiasedCell

mod budget;
mod cache;
mod classes;
mod contended;
mod crowd;
mod flush;
mod large;
mod large_demand;
#[cfg(all(test, rmm_loom))]
mod models;
mod own;
mod slot;
mod slot_set;
mod span;
mod span_filter;
mod spans;
#[cfg(all(test, not(rmm_loom)))]
mod tests;
pub(crate) mod transfer;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use rmm_core::{StreamId, StreamRef, fork};

use crate::sync::biased::{NextOwner, Owned, PerThread};
use crate::sync::biased_table::{BiasedTable, Slot};
use crate::sync::fence::Fences;
use crate::sync::thread_token::ThreadToken;
use budget::Budget;
pub(crate) use budget::{LEAST_SCALE, MOST_SCALE};
use cache::{Cache, Counters, FlushGoal};
pub(crate) use cache::{CacheCounts, CachedBlock, Put, Refused};
pub(crate) use classes::{CLASSES, Class};
use crowd::Crowd;
pub(crate) use large_demand::LargeDemand;
use slot::{SlotHeader, Wanted};
use slot_set::{FIRST_SLOTS, SLOTS, SLOTS_PER_ROW, SlotSet, THREAD_ROWS};
pub(crate) use span::{Part, Span};
use span_filter::SpanFilter;

/// Which blocks are cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CachePolicy {
    Off,
    /// Those of up to 1 MiB by size class, and a few larger ones, since cached blocks do not
    /// coalesce.
    SizeClasses,
    /// Those of up to 1 MiB by size class, but few of them where memory is short: in memory that
    /// can be extended a cached block costs the pages around it. All caches may hold `most`
    /// 1,024ths of the pool.
    SizeClassesByDemand {
        most: u64,
    },
    /// All: they have this size.
    OneSize(u64),
}

/// A slot that belonged to the calling thread a moment ago.
type OwnedSlot<'a> = (&'a SlotHeader, Owned<'a, SlotHeader, Option<Box<Cache>>, PerThread>);

/// The outcome of an allocation from a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Take {
    Done(u64),
    /// The thread has a cache for the stream, without such a block.
    Missed,
    /// The thread's cache for the stream has missed many times since the thread's last free.
    Short,
    /// The thread's cache for the stream has such blocks, but an event should be recorded on the
    /// stream before they are taken.
    Unfenced,
    /// The thread has no cache for the stream.
    NotHere,
}

/// What leaves a cache for the heap.
#[derive(Debug)]
pub(crate) enum Flushed {
    Block(CachedBlock),
    Span(Span),
}

#[cfg(test)]
impl Flushed {
    /// Where it begins.
    fn address(&self) -> u64 {
        match self {
            Self::Block(block) => block.address,
            Self::Span(span) => span.parts()[0].address,
        }
    }
}

/// Boxed: a cache goes from slot to slot, and is not copied.
type SpareCaches = Vec<Box<Cache>>;

/// The thread caches of a pool.
#[derive(Debug)]
pub(crate) struct Caches {
    /// A slot that is in use has a cache.
    table: BiasedTable<SlotHeader, Option<Box<Cache>>, SLOTS>,
    /// The slots in use. Changed with the pool's lock held.
    used: SlotSet,
    /// Empty caches, kept so that a steady state makes no host allocation.
    spare: Mutex<SpareCaches>,
    /// Caches in slots and spare ones.
    made: AtomicU64,
    policy: CachePolicy,
    /// Live blocks that are smaller than their class. While there are any, the size of a block that
    /// is freed is known to the heap alone.
    undersized_blocks: AtomicUsize,
    budget: Budget,
    /// Where the next look for grants to take back begins.
    next_looked_at: AtomicUsize,
    /// Spans in all caches. Changed with the pool's lock held.
    spans: AtomicUsize,
    span_filter: SpanFilter,
    /// How often a cache was emptied. Changed with the pool's lock held.
    flushes: AtomicU64,
    /// Whether large blocks are cached. Changed with the pool's lock held. A thread may learn of it
    /// late: then a block goes past the caches, or into one.
    keeps_large: AtomicBool,
    /// The legacy default stream.
    legacy: StreamId,
    crowd: Crowd,
    /// Whether threads wait for each other at the pool's lock. Changed with it held.
    is_contended: AtomicBool,
}

impl CachePolicy {
    /// The classes of all blocks that are cached.
    fn classes(self) -> impl DoubleEndedIterator<Item = Class> {
        let only = if let Self::OneSize(unit) = self { Some(Class::only(unit)) } else { None };
        let all =
            matches!(self, Self::SizeClasses | Self::SizeClassesByDemand { .. }).then(Class::all);
        only.into_iter().chain(all.into_iter().flatten())
    }
}

impl Caches {
    pub(crate) fn new(policy: CachePolicy, fences: Fences) -> Self {
        Self {
            table: BiasedTable::new(fences, Default::default),
            used: SlotSet::default(),
            spare: Mutex::default(),
            made: AtomicU64::new(0),
            policy,
            undersized_blocks: AtomicUsize::new(0),
            budget: Budget::default(),
            next_looked_at: AtomicUsize::new(0),
            spans: AtomicUsize::new(0),
            span_filter: SpanFilter::default(),
            flushes: AtomicU64::new(0),
            keeps_large: AtomicBool::new(true),
            legacy: StreamRef::legacy().id(),
            crowd: Crowd::default(),
            is_contended: AtomicBool::new(false),
        }
    }

    /// The class of a request for `size` bytes, which are not zero, if such blocks are cached.
    #[inline]
    pub(crate) fn class(&self, size: u64) -> Option<Class> {
        match self.policy {
            CachePolicy::SizeClasses | CachePolicy::SizeClassesByDemand { .. } => {
                Class::holding(size)
            }
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

    /// Enters the cache of the thread `me`, which is the calling one, for the stream, if there is
    /// one.
    #[inline]
    fn with_as<R>(
        &self,
        me: ThreadToken,
        stream: StreamId,
        act: impl FnOnce(&mut Cache, &Counters) -> R,
    ) -> Option<R> {
        if let Some(slot) = self.owned(me, stream) {
            return Self::enter(slot, stream, act);
        }
        let first = &self.table.slots()?[Self::first_slot(stream)];
        first.header().with_shared(stream, act)
    }

    /// Enters a cache, if it still is this thread's for the stream.
    #[inline]
    fn enter<R>(
        (header, owned): OwnedSlot<'_>,
        stream: StreamId,
        act: impl FnOnce(&mut Cache, &Counters) -> R,
    ) -> Option<R> {
        let acted = owned.enter(|cache| {
            let cache = cache.as_mut().filter(|_| header.is_of(stream))?;
            Some(act(cache, &header.counters))
        });
        acted.ok()?
    }

    /// Takes a block of the class that was freed on the stream by this thread.
    #[inline]
    pub(crate) fn take(&self, stream: StreamId, class: Class) -> Take {
        let take = |cache: &mut Cache, counters: &_| match cache.take(class, counters) {
            Some(address) => Take::Done(address),
            None => self.miss(cache, class, counters),
        };
        self.with(stream, take).unwrap_or(Take::NotHere)
    }

    /// Makes the young blocks of this thread's cache for the stream available: an event was
    /// recorded on the stream since the thread's last free. The pool's lock is held since before
    /// the event, so no other thread has come to own the cache meanwhile, and the legacy default
    /// stream's are never shared: no block in it was freed after the event.
    #[cold]
    pub(crate) fn promote(&self, stream: StreamId) {
        self.with(stream, |cache, _| cache.promote());
    }

    /// Caches a block that is freed on the stream, if this thread has a cache for that. `class` is
    /// that of the size that was requested. `evicted` receives a block that leaves for it.
    #[inline]
    pub(crate) fn put(
        &self,
        stream: StreamId,
        class: Class,
        address: u64,
        evicted: &mut Option<CachedBlock>,
    ) -> Put {
        // Relaxed: the thread that allocated an undersized block counted it before it handed the
        // block to the thread that frees it. Large ones have the size of their class.
        if !class.is_large() && self.undersized_blocks.load(Ordering::Relaxed) > 0 {
            return Put::Refused(Refused::NotHere);
        }
        let budget = &self.budget;
        let may_be_part = class.is_large() && self.span_filter.may_cover(address);
        let is_kept = self.keeps_cached(stream, class);
        let put = |cache: &mut Cache, counters: &_| {
            if may_be_part {
                cache.put_part(address, class.block_size(), counters)
            } else if is_kept {
                cache.put(class, address, budget, counters, evicted)
            } else {
                Put::Never
            }
        };
        self.with(stream, put).unwrap_or(Put::Refused(Refused::NotHere))
    }

    /// Puts a block from the heap into this thread's cache for the stream, if there is room.
    pub(crate) fn add(&self, stream: StreamId, class: Class, address: u64) -> bool {
        let budget = &self.budget;
        let add = |cache: &mut Cache, counters: &_| cache.add(class, address, budget, counters);
        self.with(stream, add).unwrap_or(false)
    }

    /// Whether a block of the class that is freed on the stream is worth caching now.
    #[inline]
    pub(crate) fn keeps(&self, stream: StreamId, class: Class) -> bool {
        self.has_spans() || self.keeps_cached(stream, class)
    }

    /// Whether a block of the class that is freed on the stream, and is no part of a span, is worth
    /// caching now.
    #[inline]
    fn keeps_cached(&self, stream: StreamId, class: Class) -> bool {
        self.keeps_large() || !self.may_pass_by(stream, class)
    }

    /// Whether blocks of the class go past the stream's caches while they serve few requests. Not
    /// those of the legacy default stream: in the heap they would coalesce with blocks that wait
    /// for no event, and all would wait.
    #[inline]
    pub(crate) fn may_pass_by(&self, stream: StreamId, class: Class) -> bool {
        class.is_large() && stream != self.legacy
    }

    /// Whether large blocks are worth caching now.
    #[inline]
    pub(crate) fn keeps_large(&self) -> bool {
        self.keeps_large.load(Ordering::Relaxed)
    }

    /// Sets what [`keeps_large`](Self::keeps_large) returns. The pool's lock is held.
    pub(crate) fn keep_large(&self, keeps: bool) {
        self.keeps_large.store(keeps, Ordering::Relaxed);
    }

    /// How many large blocks all caches have handed out so far, modulo 2^32. Parts of spans do not
    /// count.
    pub(crate) fn large_hits(&self) -> u32 {
        let hits = |slot: &Slot<SlotHeader, _>| slot.header().counters.large_taken();
        self.table.iter().map(hits).fold(0, u32::wrapping_add)
    }

    /// Whether threads use more streams than the caches can serve, so that calls pass the caches by
    /// for now. Counts this call.
    ///
    /// The pool's lock is held.
    #[inline]
    pub(crate) fn are_passed_by(&self) -> bool {
        self.crowd.pass()
    }

    /// The most bytes that a cache may hold, without its large blocks.
    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.budget.capacity()
    }

    /// Bounds each cache, and all of them together, to fractions of the pool's reserved bytes, of
    /// which `peak` were in use at once so far, in `operations` operations on the heap. Returns
    /// whether a bound is higher now.
    pub(crate) fn set_capacity_from(&self, reserved: u64, peak: u64, operations: u64) -> bool {
        match self.policy {
            CachePolicy::OneSize(_) => self.budget.set_from_blocks_of_one_size(reserved),
            CachePolicy::SizeClassesByDemand { most } => {
                self.budget.set_by_demand((reserved, peak), operations, most, self.room())
            }
            CachePolicy::SizeClasses | CachePolicy::Off => self.budget.set_from(reserved),
        }
    }

    /// Notes that a request has called upstream, after `operations` operations on the heap: from
    /// now on caches may hold less, if they may hold more by demand.
    pub(crate) fn note_shortage(&self, operations: u64) {
        if self.follows_demand() {
            self.budget.note_shortage(operations);
        }
    }

    /// Whether what caches may hold depends on demand.
    pub(crate) fn follows_demand(&self) -> bool {
        matches!(self.policy, CachePolicy::SizeClassesByDemand { .. })
    }

    /// Bytes that caches may hold now, and that are free in spans. O(caches) while there are spans.
    pub(crate) fn granted(&self) -> u64 {
        self.granted_to_blocks() + self.span_bytes()
    }

    /// Whether a block of the class, which is not large, has a place in a cache by itself.
    pub(crate) fn may_hold(&self, class: Class) -> bool {
        self.budget.may_hold(class.block_size())
    }

    /// Bytes that caches may hold now in blocks.
    #[inline]
    pub(crate) fn granted_to_blocks(&self) -> u64 {
        self.budget.granted()
    }

    /// Counts a block that is handed out and smaller than its class.
    pub(crate) fn note_undersized(&self) {
        self.undersized_blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts such a block no longer, once it is freed.
    pub(crate) fn forget_undersized(&self) {
        self.undersized_blocks.fetch_sub(1, Ordering::Relaxed);
    }

    /// Flushes up to `N` blocks of this thread's cache for the stream: those of `class`, and then
    /// the largest, while it holds more than most of what it may. Returns them, and how many of
    /// them are of the class.
    #[cold]
    pub(crate) fn flush<'a, const N: usize>(
        &self,
        stream: StreamId,
        class: Class,
        flushed: &'a mut [CachedBlock; N],
    ) -> (&'a [CachedBlock], usize) {
        let (mut all, mut of_class) = (0, 0);
        self.with(stream, |cache, counters| {
            let goal = FlushGoal::in_part(N, &self.budget, &counters.grant);
            let others = self.policy.classes().rev();
            cache.flush(class, others, goal, counters, |block| {
                flushed[all] = block;
                all += 1;
                of_class += usize::from(block.size == class.block_size());
            });
        });
        (&flushed[..all], of_class)
    }

    /// Makes a cache for the stream on this thread, where there is none. If that takes the slot of
    /// another stream, its blocks are flushed to `to`.
    ///
    /// The stream has a free list, and the pool's lock is held.
    #[cold]
    pub(crate) fn make(&self, stream: StreamId, to: impl FnMut(StreamId, Flushed)) {
        if let Some(me) = ThreadToken::current() {
            self.make_as(me, stream, to);
        }
    }

    /// Makes a cache for the stream on the thread `me`, which is the calling one. Otherwise as
    /// [`make`](Self::make).
    fn make_as(&self, me: ThreadToken, stream: StreamId, mut to: impl FnMut(StreamId, Flushed)) {
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
        let next = if is_shared { NextOwner::None } else { NextOwner::Thread(me) };
        revoker.revoke(Some(me), next, [slot], |header, value| {
            let cache = value.get_or_insert_with(|| self.spare_or_new(stream));
            // A thread that has ended leaves its blocks to the next one on the same stream.
            if !header.is_of(stream) {
                self.flush_cache(header, cache, &mut to);
                cache.pass_to(stream);
                header.assign(Some(stream));
                self.used.insert(slot);
            }
            if is_shared {
                header.share(value.take());
            }
        });
    }

    /// Whether no stream has a cache.
    pub(crate) fn are_unused(&self) -> bool {
        self.used.are_none()
    }

    /// The caches that no slot has. Locked by one revoker at a time.
    fn spare(&self) -> MutexGuard<'_, SpareCaches> {
        fork::lock(&self.spare)
    }

    /// An empty cache for a stream.
    fn spare_or_new(&self, stream: StreamId) -> Box<Cache> {
        if let Some(mut cache) = self.spare().pop() {
            cache.pass_to(stream);
            return cache;
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        Box::new(Cache::new(stream))
    }

    /// Frees the host memory of the caches that no slot has.
    pub(crate) fn shrink(&self) {
        let spare = std::mem::take(&mut *self.spare());
        self.made.fetch_sub(spare.len() as u64, Ordering::Relaxed);
    }

    #[cfg(test)]
    /// Whether a block of the class with this address is in one of the caches.
    pub(crate) fn contain(&self, class: Class, address: u64) -> bool {
        let mut contains = false;
        let Some(mut revoker) = self.table.revoker_of_made() else { return false };
        let (me, all) = (ThreadToken::current(), 0..SLOTS);
        revoker.revoke(me, NextOwner::Former, all, |header, cache| {
            let contained = |cache: &Cache| cache.contains(class, address);
            contains |= cache.as_deref().is_some_and(contained)
                || header.look_at_shared(contained).unwrap_or(false);
        });
        contains
    }

    /// Host bytes of the table and of the caches in it.
    pub(crate) fn bookkeeping_bytes(&self) -> u64 {
        let spans = self.span_count() * Span::bookkeeping_bytes();
        let caches = self.made.load(Ordering::Relaxed) * Cache::bookkeeping_bytes();
        self.table.bytes() + caches + spans + self.span_filter.bookkeeping_bytes()
    }

    /// Bytes of all cached blocks. Other threads may change them meanwhile.
    pub(crate) fn bytes(&self) -> u64 {
        let Some(slots) = self.table.slots().filter(|_| !self.are_unused()) else { return 0 };
        let counters = self.used.iter().map(|slot| &slots[slot].header().counters);
        counters.map(|counters| counters.bytes() + counters.span_bytes()).sum()
    }

    /// Bytes of all cached blocks, and the counts of all caches so far. Other threads may change
    /// them meanwhile.
    pub(crate) fn totals(&self) -> (u64, CacheCounts) {
        let mut bytes = 0;
        let mut counts = CacheCounts::default();
        for counters in self.table.iter().map(|slot| &slot.header().counters) {
            let more = counters.counts();
            bytes += counters.bytes() + counters.span_bytes();
            counts.taken += more.taken;
            counts.put += more.put;
            counts.excess = counts.excess.wrapping_add(more.excess);
        }
        (bytes, counts)
    }
}
