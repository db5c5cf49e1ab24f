//! Blocks that threads keep at hand, in front of the pool's lock.
//!
//! A block that is freed on a stream may be used by that stream's next work at once. So the thread that freed it keeps it, and
//! when it asks on the same stream for the same size, it gets it for one atomic operation. Whoever finds that nothing else is
//! left empties all caches, so that no memory is out of anybody's reach.
//!
//! A cache is one thread's for as long as others find better ones, but belongs to a stream. Its blocks have no release point:
//! they get the one that is open when they leave it for the heap, which is later than that of their free, and so safe.

mod cache;
mod classes;
#[cfg(all(test, not(rmm_loom)))]
mod tests;
mod thread;
mod try_lock;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rmm_core::StreamId;

use cache::Cache;
pub(super) use cache::CacheCounts;
pub(super) use classes::Class;
use try_lock::{TryGuard, TryLock};

/// Places for a stream's first cache: more than there are streams at work, mostly.
const FIRSTS: usize = 128;
/// Places for the caches of further threads that use the same streams.
const FURTHERS: usize = 128;
/// Places between those of two threads for the same stream. Odd, so that threads and streams that are counted up together spread.
const THREAD_STRIDE: usize = 37;
/// Blocks that leave a full cache at once.
const SPILL: usize = 64;

/// What part of the pool's memory one cache may hold: what is in a cache does not merge with its neighbours.
const CACHED_PART: u64 = 64;

/// The owner of no cache.
const NOBODY: u64 = 0;

/// A place for a cache, apart from its neighbours' in the processor's caches.
#[derive(Debug)]
#[repr(align(128))]
struct Place {
    /// The number of the stream whose blocks are in the cache.
    ///
    /// # Invariant
    /// Changed only with the cache locked, and empty. A stream that is named here has a list, which is neither recycled nor
    /// retired before this is cleared.
    owner: AtomicU64,
    /// The number of the thread that used the cache last.
    user: AtomicUsize,
    /// Made when it is needed, and kept.
    cache: TryLock<Option<Box<Cache>>>,
}

/// Which blocks are cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cached {
    Nothing,
    /// Those of up to 1 MiB, rounded up to a size of which there are few. Larger ones are not many, and what is in a cache does not
    /// merge.
    Small,
    /// All: they have this size.
    All(u64),
}

/// What became of a block that was offered to a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Put {
    Done,
    /// The stream's cache is full, and some of it should go to the heap.
    Full,
    /// There is none, or another thread is at it.
    NotHere,
}

/// The caches of a pool.
#[derive(Debug)]
pub(super) struct Caches {
    places: Box<[Place]>,
    cached: Cached,
    /// Blocks handed out that are smaller than their class. While there are any, the size of a block that is freed is not known
    /// without a look at the heap.
    odd_blocks: AtomicUsize,
    /// The most bytes that a cache may hold.
    most_bytes: AtomicU64,
}

impl Place {
    /// The cache, if it is this stream's and nobody is at it.
    #[inline]
    fn open(&self, stream: StreamId) -> Option<TryGuard<'_, Option<Box<Cache>>>> {
        let is_owner = || self.owner.load(Ordering::Relaxed) == stream.get();
        if !is_owner() {
            return None;
        }
        // It may have become another's before it was locked.
        self.cache.try_lock().filter(|_| is_owner())
    }
}

impl Caches {
    pub(super) fn new(cached: Cached) -> Self {
        let place = |_| Place {
            owner: AtomicU64::new(NOBODY),
            user: AtomicUsize::new(0),
            cache: TryLock::new(None),
        };
        Self {
            places: (0..FIRSTS + FURTHERS).map(place).collect(),
            cached,
            odd_blocks: AtomicUsize::new(0),
            most_bytes: AtomicU64::new(0),
        }
    }

    /// The class of a request for `size` bytes, a multiple of the granule and not zero, if such blocks are cached.
    #[inline]
    pub(super) fn class(&self, size: u64) -> Option<Class> {
        match self.cached {
            Cached::Small => Class::holding(size),
            Cached::All(unit) => Some(Class::only(unit)),
            Cached::Nothing => None,
        }
    }

    /// Where a stream's blocks may be kept: a place that is the stream's, for the thread that uses it most, and one that is the
    /// stream's and this thread's, for when there are several.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are all that is used")]
    #[inline]
    fn places_of(&self, stream: StreamId, thread: usize) -> [&Place; 2] {
        // Neighbours in number have neighbouring places: few streams have no clashes.
        let first = stream.get() as usize;
        let further = first.wrapping_add(thread.wrapping_mul(THREAD_STRIDE));
        [&self.places[first % FIRSTS], &self.places[FIRSTS + further % FURTHERS]]
    }

    /// A block of the class, of those that were freed on the stream, on this thread if possible.
    #[inline]
    pub(super) fn take(&self, stream: StreamId, class: Class) -> Option<u64> {
        let thread = thread::number();
        let [first, further] = self.places_of(stream, thread);
        if first.user.load(Ordering::Relaxed) == thread {
            first.open(stream)?.as_mut()?.take(class)
        } else {
            Self::take_as_another(stream, class, thread, [first, further])
        }
    }

    /// As [`take`](Self::take), on a thread that is not the last user of the stream's own place. It becomes that if it finds nothing
    /// in its own.
    fn take_as_another(
        stream: StreamId,
        class: Class,
        thread: usize,
        [first, further]: [&Place; 2],
    ) -> Option<u64> {
        let take = |place: &Place| place.open(stream)?.as_mut()?.take(class);
        take(further).or_else(|| {
            let address = take(first)?;
            first.user.store(thread, Ordering::Relaxed);
            Some(address)
        })
    }

    /// Keeps a block that was freed on the stream, if the stream has a cache here. `class` is that of the size it was asked for with.
    #[inline]
    pub(super) fn put(&self, stream: StreamId, class: Class, address: u64) -> Put {
        // Relaxed: whoever frees an odd block knows of it by what the thread that allocated it did, and its count came before that.
        if self.odd_blocks.load(Ordering::Relaxed) > 0 {
            return Put::NotHere;
        }
        match self.place(stream).open(stream).as_deref_mut() {
            Some(Some(cache)) => {
                let most_bytes = self.most_bytes.load(Ordering::Relaxed);
                if cache.put(class, address, most_bytes) { Put::Done } else { Put::Full }
            }
            _ => Put::NotHere,
        }
    }

    /// How many blocks of the class this thread's cache for the stream should get from the heap.
    pub(super) fn shortage(&self, stream: StreamId, class: Class) -> u64 {
        match self.place(stream).open(stream).as_deref() {
            Some(Some(cache)) => cache.shortage(class),
            _ => 0,
        }
    }

    /// Puts a block from the heap into this thread's cache for the stream, if there is room.
    pub(super) fn add(&self, stream: StreamId, class: Class, address: u64) -> bool {
        match self.place(stream).open(stream).as_deref_mut() {
            Some(Some(cache)) => cache.add(class, address, self.most_bytes.load(Ordering::Relaxed)),
            _ => false,
        }
    }

    /// Where this thread keeps a stream's blocks.
    #[inline]
    fn place(&self, stream: StreamId) -> &Place {
        let thread = thread::number();
        let [first, further] = self.places_of(stream, thread);
        if first.user.load(Ordering::Relaxed) == thread { first } else { further }
    }

    /// Adapts the size of the caches to that of the pool.
    pub(super) fn fit(&self, reserved: u64) {
        self.most_bytes.store(reserved / CACHED_PART, Ordering::Relaxed);
    }

    /// Notes that a block is handed out that is smaller than its class.
    pub(super) fn note_odd(&self) {
        self.odd_blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a block is back that is smaller than its class.
    pub(super) fn forget_odd(&self) {
        self.odd_blocks.fetch_sub(1, Ordering::Relaxed);
    }

    /// Passes some blocks of this thread's cache for the stream on: it is full of blocks of `class`.
    #[cold]
    pub(super) fn spill(&self, stream: StreamId, class: Class, to: impl FnMut(StreamId, u64)) {
        if let Some(Some(cache)) = self.place(stream).open(stream).as_deref_mut() {
            cache.spill(class, SPILL, to);
        }
    }

    /// Makes a cache for the stream on this thread, where there is none. If that takes the place of another, its blocks are passed on.
    ///
    /// The stream has a list, and the pool's lock is held.
    #[cold]
    pub(super) fn claim(&self, stream: StreamId, to: impl FnMut(StreamId, u64)) {
        let thread = thread::number();
        let [first, further] = self.places_of(stream, thread);
        // The stream's own place is for the first that comes.
        let is_free = first.owner.load(Ordering::Relaxed) != stream.get();
        let place = if is_free { first } else { further };
        if place.owner.load(Ordering::Relaxed) == stream.get() {
            return;
        }
        let Some(mut cache) = place.cache.try_lock() else { return };
        let cache = cache.get_or_insert_with(|| Box::new(Cache::new(stream)));
        cache.drain(to);
        cache.pass_to(stream);
        place.owner.store(stream.get(), Ordering::Relaxed);
        place.user.store(thread, Ordering::Relaxed);
    }

    /// Passes all blocks of all caches on, or those of one stream, whose caches are nobody's then.
    ///
    /// The pool's lock is held, so that nobody makes new ones.
    #[cold]
    pub(super) fn drain(&self, stream: Option<StreamId>, mut to: impl FnMut(StreamId, u64)) {
        for place in &self.places {
            let owner = place.owner.load(Ordering::Relaxed);
            if owner == NOBODY || stream.is_some_and(|stream| stream.get() != owner) {
                continue;
            }
            let mut cache = place.cache.lock();
            place.owner.store(NOBODY, Ordering::Relaxed);
            if let Some(cache) = cache.as_mut() {
                cache.drain(&mut to);
            }
        }
    }

    /// Frees the host memory of caches that are nobody's. Returns what went on in them.
    pub(super) fn shrink(&self) -> CacheCounts {
        let mut counts = CacheCounts::default();
        for place in &self.places {
            let mut cache = place.cache.lock();
            if place.owner.load(Ordering::Relaxed) == NOBODY
                && let Some(cache) = cache.take()
            {
                counts += cache.counts();
            }
        }
        counts
    }

    /// Whether a block of the class with this address is in one of the caches.
    pub(super) fn contain(&self, class: Class, address: u64) -> bool {
        let contains = |cache: &Cache| cache.contains(class, address);
        self.places.iter().any(|place| place.cache.lock().as_deref().is_some_and(contains))
    }

    /// Host bytes of the places and of the caches that there are.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        let caches = self
            .places
            .iter()
            .map(|place| place.cache.lock().as_deref().map_or(0, Cache::bookkeeping_bytes));
        caches.sum::<u64>() + size_of_val(&*self.places) as u64
    }

    /// Bytes of all cached blocks, and what went on in the caches that there are.
    pub(super) fn totals(&self) -> (u64, CacheCounts) {
        let mut bytes = 0;
        let mut counts = CacheCounts::default();
        for place in &self.places {
            if let Some(cache) = place.cache.lock().as_deref() {
                bytes += cache.bytes();
                counts += cache.counts();
            }
        }
        (bytes, counts)
    }
}
