//! Blocks that threads keep at hand, in front of the pool's lock.
//!
//! A block that is freed on a stream may be used by that stream's next work at once. So the thread
//! that freed it keeps it, and when it asks on the same stream for the same size, it gets it
//! without an atomic operation. Whoever finds that nothing else is left empties all caches, so that
//! no memory is out of anybody's reach.
//!
//! A cache is one thread's, until that ends or another has long wanted the place, but belongs to a
//! stream. Its blocks have no release point: they get the one that is open when they leave it for
//! the heap, which is later than that of their free, and so safe.

mod biased;
mod cache;
mod classes;
mod large;
#[cfg(all(test, rmm_loom))]
mod models;
#[cfg(all(test, not(rmm_loom)))]
mod tests;
mod thread;

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::sync::primitives::atomic::AtomicU64 as OwnerId;

use rmm_core::StreamId;

use crate::sync::fence::Fences;
use biased::{NextUser, Place, Places};
use cache::{Cache, Counters};
pub(super) use cache::{CacheCounts, Put};
pub(super) use classes::{CLASSES, Class};
use thread::Me;

/// Places for a stream's first cache: more than there are streams at work, mostly.
const FIRSTS: usize = if cfg!(rmm_loom) { 1 } else { 128 };
/// Threads that have places of their own for further caches, and how many. Threads have the
/// smallest numbers that are unused.
const THREADS: usize = if cfg!(rmm_loom) { 1 } else { 32 };
const FURTHERS: usize = if cfg!(rmm_loom) { 1 } else { 8 };
const PLACES: usize = FIRSTS + THREADS * FURTHERS;

/// What part of the pool's memory one cache may hold: what is in a cache does not merge with its
/// neighbours.
const CACHED_PART: u64 = 32;

/// The owner of no cache.
const NOBODY: u64 = 0;

/// Calls for which there was no place, as another has it, after which it is taken away: that costs
/// as much as many calls.
const STEAL_AFTER_MISSES: u32 = 64;

/// What is told of a place.
#[derive(Debug, Default)]
struct SlotHeader {
    /// The number of the stream whose blocks are in the cache.
    ///
    /// # Invariant
    /// Changed only by whoever has the cache alone, and empty. A stream that is named here has a
    /// list, which is neither recycled nor retired before this is cleared.
    owner: OwnerId,
    /// Calls that would have liked to have the place.
    wanted: AtomicU32,
    /// What the cache takes of the host's memory.
    host_bytes: AtomicU64,
    counters: Counters,
}

/// Which blocks are cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CachePolicy {
    Off,
    /// Those of up to 1 MiB, rounded up to a size of which there are few. Larger ones are not many,
    /// and what is in a cache does not merge.
    SizeClasses,
    /// All: they have this size.
    OneSize(u64),
}

/// What became of a request to a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Take {
    Done(u64),
    /// The stream has a cache here, without such a block.
    Missed,
    /// As before, and the thread has asked in vain for long and freed nothing.
    Short,
    /// There is none.
    NotHere,
}

/// The caches of a pool.
#[derive(Debug)]
pub(super) struct Caches {
    /// A cache is made when it is needed, and kept.
    places: Places<SlotHeader, Option<Box<Cache>>, PLACES>,
    cached: CachePolicy,
    /// Blocks handed out that are smaller than their class. While there are any, the size of a
    /// block that is freed is not known without a look at the heap.
    undersized_blocks: AtomicUsize,
    /// The most bytes that a cache may hold.
    most_bytes: AtomicU64,
}

impl CachePolicy {
    /// The classes of all blocks that are cached.
    fn classes(self) -> impl Iterator<Item = Class> {
        let only = if let Self::OneSize(unit) = self { Some(Class::only(unit)) } else { None };
        let all = (self == Self::SizeClasses).then(Class::all);
        only.into_iter().chain(all.into_iter().flatten())
    }
}

impl SlotHeader {
    #[inline]
    fn is_of(&self, stream: StreamId) -> bool {
        self.owner.load(Ordering::Relaxed) == stream.get()
    }

    fn is_nobodys(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == NOBODY
    }
}

impl Caches {
    pub(super) fn new(cached: CachePolicy, fences: Fences) -> Self {
        Self {
            places: Places::new(fences, Default::default),
            cached,
            undersized_blocks: AtomicUsize::new(0),
            most_bytes: AtomicU64::new(0),
        }
    }

    /// The class of a request for `size` bytes, which are not zero, if such blocks are cached.
    #[inline]
    pub(super) fn class(&self, size: u64) -> Option<Class> {
        match self.cached {
            CachePolicy::SizeClasses => Class::holding(size),
            CachePolicy::OneSize(unit) => (size <= unit).then_some(Class::only(unit)),
            CachePolicy::Off => None,
        }
    }

    /// Where a stream's blocks may be kept: a place that is the stream's, for the thread that came
    /// first, and one that is this thread's, for when there are several.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are all that is used")]
    #[inline]
    fn places_of(stream: StreamId, me: Me) -> [usize; 2] {
        // Neighbours in number have neighbouring places: few streams have no clashes.
        let stream = stream.get() as usize;
        let row = me.thread().number % THREADS * FURTHERS;
        [stream % FIRSTS, FIRSTS + row + stream % FURTHERS]
    }

    /// Uses this thread's cache for the stream, if there is one.
    #[inline]
    fn with<R>(&self, stream: StreamId, act: impl FnOnce(&mut Cache, &Counters) -> R) -> Option<R> {
        self.with_as(thread::current()?, stream, act)
    }

    /// As `with`; `me` is the calling thread.
    #[inline]
    fn with_as<R>(
        &self,
        me: Me,
        stream: StreamId,
        act: impl FnOnce(&mut Cache, &Counters) -> R,
    ) -> Option<R> {
        let places = self.places.made()?;
        let [first, further] = Self::places_of(stream, me).map(|index| &places[index]);
        let is_first = first.is_used_by(me) && first.shared().is_of(stream);
        let place = if is_first { first } else { further };
        let label = place.shared();
        place.enter(me, |cache| {
            let cache = cache.as_mut().filter(|_| label.is_of(stream))?;
            Some(act(cache, &label.counters))
        })?
    }

    /// A block of the class, of those that were freed on the stream, on this thread.
    #[inline]
    pub(super) fn take(&self, stream: StreamId, class: Class) -> Take {
        let take = |cache: &mut Cache, counters: &_| match cache.take(class, counters) {
            Some(address) => Take::Done(address),
            None if cache.is_short(class) => Take::Short,
            None => Take::Missed,
        };
        self.with(stream, take).unwrap_or(Take::NotHere)
    }

    /// Keeps a block that was freed on the stream, if the stream has a cache here. `class` is that
    /// of the size it was asked for with.
    #[inline]
    pub(super) fn put(&self, stream: StreamId, class: Class, address: u64) -> Put {
        // Relaxed: whoever frees an odd block knows of it by what the thread that allocated it did,
        // and its count came before that.
        if self.undersized_blocks.load(Ordering::Relaxed) > 0 {
            return Put::NotHere;
        }
        let most_bytes = self.most_bytes();
        let put = |cache: &mut Cache, counters: &_| cache.put(class, address, most_bytes, counters);
        self.with(stream, put).unwrap_or(Put::NotHere)
    }

    /// Puts a block from the heap into this thread's cache for the stream, if there is room.
    pub(super) fn add(&self, stream: StreamId, class: Class, address: u64) -> bool {
        let most_bytes = self.most_bytes();
        let add = |cache: &mut Cache, counters: &_| cache.add(class, address, most_bytes, counters);
        self.with(stream, add).unwrap_or(false)
    }

    /// The most bytes that a cache may hold.
    #[inline]
    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes.load(Ordering::Relaxed)
    }

    /// Adapts the size of the caches to that of the pool.
    pub(super) fn set_capacity_from(&self, reserved: u64) {
        self.most_bytes.store(reserved / CACHED_PART, Ordering::Relaxed);
    }

    /// Notes that a block is handed out that is smaller than its class.
    pub(super) fn note_undersized(&self) {
        self.undersized_blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a block is back that is smaller than its class.
    pub(super) fn forget_undersized(&self) {
        self.undersized_blocks.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes blocks out of this thread's cache for the stream, which is full of blocks of `class`:
    /// those of the class before others. Returns them, and how many of them are of the class.
    #[cold]
    pub(super) fn flush<'a, const N: usize>(
        &self,
        stream: StreamId,
        class: Class,
        spilt: &'a mut [u64; N],
    ) -> (&'a [u64], usize) {
        let (mut all, mut of_class) = (0, 0);
        self.with(stream, |cache, counters| {
            cache.flush(class, self.cached.classes(), N, counters, |which, address| {
                spilt[all] = address;
                all += 1;
                of_class += usize::from(which == class);
            });
        });
        (&spilt[..all], of_class)
    }

    /// Makes a cache for the stream on this thread, where there is none. If that takes the place of
    /// another, its blocks are passed on.
    ///
    /// The stream has a list, and the pool's lock is held.
    #[cold]
    pub(super) fn make(&self, stream: StreamId, to: impl FnMut(StreamId, u64)) {
        if let Some(me) = thread::current() {
            self.make_as(me, stream, to);
        }
    }

    /// As `claim`; `me` is the calling thread.
    fn make_as(&self, me: Me, stream: StreamId, mut to: impl FnMut(StreamId, u64)) {
        let places = Self::places_of(stream, me);
        let mut outside = self.places.outside();
        let all = outside.places();
        let label = |index: usize| all[index].shared();
        let is_mine = |index: usize| all[index].is_used_by(me) && label(index).is_of(stream);
        if places.into_iter().any(is_mine) {
            return;
        }
        let is_free = |&index: &usize| outside.is_nobodys(index) || label(index).is_nobodys();
        let free = places.into_iter().find(is_free);
        let is_taken_away = || {
            let wanted = label(places[1]).wanted.fetch_add(1, Ordering::Relaxed) + 1;
            wanted.is_multiple_of(STEAL_AFTER_MISSES).then_some(places[1])
        };
        let Some(place) = free.or_else(is_taken_away) else { return };
        outside.visit(
            Some(me),
            NextUser::Is(me),
            |index, _| index == place,
            |label, cache| {
                let cache = cache.get_or_insert_with(|| Box::new(Cache::new(stream)));
                label.host_bytes.store(cache.bookkeeping_bytes(), Ordering::Relaxed);
                // A thread that has ended has left its stream's blocks for the next.
                if !label.is_of(stream) {
                    self.empty(label, cache, &mut to);
                    cache.pass_to(stream);
                    label.owner.store(stream.get(), Ordering::Relaxed);
                }
            },
        );
    }

    /// Passes all blocks of a cache on.
    fn empty(&self, label: &SlotHeader, cache: &mut Cache, mut to: impl FnMut(StreamId, u64)) {
        let stream = cache.stream();
        let mut classes = self.cached.classes();
        if let Some(class) = classes.next() {
            let to = |_, address| to(stream, address);
            cache.flush(class, classes, usize::MAX, &label.counters, to);
        }
    }

    /// Passes all blocks of all caches on, or those of one stream, whose caches are nobody's then.
    ///
    /// The pool's lock is held, so that nobody makes new ones.
    #[cold]
    pub(super) fn flush_all(&self, stream: Option<StreamId>, to: impl FnMut(StreamId, u64)) {
        self.flush_all_as(thread::current(), stream, to);
    }

    /// As `drain`; `me` is the calling thread, if it is not at its end.
    fn flush_all_as(
        &self,
        me: Option<Me>,
        stream: Option<StreamId>,
        mut to: impl FnMut(StreamId, u64),
    ) {
        let which = |_, label: &SlotHeader| {
            !label.is_nobodys() && stream.is_none_or(|stream| label.is_of(stream))
        };
        let Some(mut outside) = self.places.outside_of_made() else { return };
        outside.visit(me, NextUser::Nobody, which, |label, cache| {
            label.owner.store(NOBODY, Ordering::Relaxed);
            if let Some(cache) = cache {
                self.empty(label, cache, &mut to);
            }
        });
    }

    /// Frees the host memory of caches that are nobody's.
    pub(super) fn shrink(&self) {
        self.shrink_as(thread::current());
    }

    /// As `shrink`; `me` is the calling thread, if it is not at its end.
    fn shrink_as(&self, me: Option<Me>) {
        let is_nobodys = |_, label: &SlotHeader| label.is_nobodys();
        let free = |label: &SlotHeader, cache: &mut Option<_>| {
            *cache = None;
            label.host_bytes.store(0, Ordering::Relaxed);
        };
        let Some(mut outside) = self.places.outside_of_made() else { return };
        outside.visit(me, NextUser::Nobody, is_nobodys, free);
    }

    /// Whether a block of the class with this address is in one of the caches.
    pub(super) fn contain(&self, class: Class, address: u64) -> bool {
        let is_filled = |_, label: &SlotHeader| label.counters.bytes() > 0;
        let mut contains = false;
        let Some(mut outside) = self.places.outside_of_made() else { return false };
        outside.visit(thread::current(), NextUser::Same, is_filled, |_, cache| {
            contains |= cache.as_deref().is_some_and(|cache| cache.contains(class, address));
        });
        contains
    }

    /// Host bytes of the places and of the caches that there are.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        let host_bytes =
            |place: &Place<SlotHeader, _>| place.shared().host_bytes.load(Ordering::Relaxed);
        self.places.bytes() + self.places.iter().map(host_bytes).sum::<u64>()
    }

    /// Bytes of all cached blocks, and what went on in all caches so far. Other threads at work may
    /// be ahead of it.
    pub(super) fn totals(&self) -> (u64, CacheCounts) {
        let mut bytes = 0;
        let mut counts = CacheCounts::default();
        for counters in self.places.iter().map(|place| &place.shared().counters) {
            let more = counters.counts();
            bytes += counters.bytes();
            counts.taken += more.taken;
            counts.put += more.put;
        }
        (bytes, counts)
    }
}
