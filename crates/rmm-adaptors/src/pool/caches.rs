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
mod thread;
mod try_lock;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rmm_core::StreamId;

use cache::Cache;
pub(super) use cache::CacheCounts;
pub(super) use classes::Class;
use try_lock::{TryGuard, TryLock};

/// Caches of a pool: more than there are threads at work times streams that each uses in turn, mostly.
const PLACES: usize = 256;
/// Slots between those of two threads for the same stream. Odd, so that threads and streams that are counted up together spread.
const THREAD_STRIDE: usize = 37;
/// Slots that a stream's cache may be in, for a thread.
const PROBES: usize = 2;
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
    /// Made when it is needed, and kept.
    cache: TryLock<Option<Box<Cache>>>,
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
    /// The size of all blocks, if it is the same for all.
    unit: Option<u64>,
    /// Blocks handed out that are smaller than their class. While there are any, the size of a block that is freed is not known
    /// without a look at the heap.
    odd_blocks: AtomicUsize,
    /// The most bytes that a cache may hold.
    most_bytes: AtomicU64,
}

impl Caches {
    /// For a pool whose blocks have sizes of their own, or this one.
    pub(super) fn new(unit: Option<u64>) -> Self {
        let place = |_| Place { owner: AtomicU64::new(NOBODY), cache: TryLock::new(None) };
        Self {
            places: (0..PLACES).map(place).collect(),
            unit,
            odd_blocks: AtomicUsize::new(0),
            most_bytes: AtomicU64::new(0),
        }
    }

    /// The class of a request for `size` bytes.
    #[inline]
    pub(super) fn class(&self, size: u64) -> Class {
        self.unit.map_or_else(|| Class::holding(size), Class::only)
    }

    /// Where this thread may keep a stream's blocks.
    #[inline]
    fn places_of(&self, stream: StreamId) -> [&Place; PROBES] {
        // Neighbours in number have neighbouring places: programs that make no more streams than there are places have no clashes.
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are all that is used")]
        let first = (stream.get() as usize).wrapping_add(thread::number() * THREAD_STRIDE);
        std::array::from_fn(|probe| &self.places[(first + probe) % PLACES])
    }

    /// This thread's cache of a stream's blocks, if there is one and nobody else is at it.
    #[inline]
    fn open(&self, stream: StreamId) -> Option<TryGuard<'_, Option<Box<Cache>>>> {
        let is_owner = |place: &&Place| place.owner.load(Ordering::Relaxed) == stream.get();
        let place = self.places_of(stream).into_iter().find(is_owner)?;
        // It may have become another's before it was locked.
        place.cache.try_lock().filter(|_| is_owner(&place))
    }

    /// A block of the class, of those that this thread freed on the stream.
    #[inline]
    pub(super) fn take(&self, stream: StreamId, class: Class) -> Option<u64> {
        self.open(stream)?.as_mut()?.take(class)
    }

    /// Keeps a block that was freed on the stream, if the stream has a cache here. `class` is that of the size it was asked for with.
    #[inline]
    pub(super) fn put(&self, stream: StreamId, class: Class, address: u64) -> Put {
        // Relaxed: whoever frees an odd block knows of it by what the thread that allocated it did, and its count came before that.
        if self.odd_blocks.load(Ordering::Relaxed) > 0 {
            return Put::NotHere;
        }
        match self.open(stream).as_deref_mut() {
            Some(Some(cache)) => {
                let is_done = cache.put(class, address, self.most_bytes.load(Ordering::Relaxed));
                if is_done { Put::Done } else { Put::Full }
            }
            _ => Put::NotHere,
        }
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
        if let Some(Some(cache)) = self.open(stream).as_deref_mut() {
            cache.spill(class, SPILL, to);
        }
    }

    /// Makes a cache for the stream on this thread, where there is none. If that takes the place of another, its blocks are passed on.
    ///
    /// The stream has a list, and the pool's lock is held.
    #[cold]
    pub(super) fn claim(&self, stream: StreamId, to: impl FnMut(StreamId, u64)) {
        let places = self.places_of(stream);
        let find = |owner| places.iter().find(|place| place.owner.load(Ordering::Relaxed) == owner);
        if find(stream.get()).is_some() {
            return;
        }
        let place = find(NOBODY).unwrap_or(&places[0]);
        let Some(mut cache) = place.cache.try_lock() else { return };
        let cache = cache.get_or_insert_with(|| Box::new(Cache::new(stream)));
        cache.drain(to);
        cache.pass_to(stream);
        place.owner.store(stream.get(), Ordering::Relaxed);
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
