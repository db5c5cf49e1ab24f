//! The bytes that caches may hold: each a fraction of the pool, and all together another one.
//! Where memory can be extended, the fractions follow demand: they grow while caches are full and
//! no request calls upstream, and halve when one does, as tcmalloc's capacities do. A pool that
//! begins with much more memory than its program uses begins with the most.
//!
//! ```text
//!     pool      |------------------------------- reserved --------------------------------|
//!     all       |---------- 7/32 ----------|         granted to caches, part by part
//!               |-- by demand, 28/1024 to 768/1024 --|
//!     cache 1   |-- granted --|                      bytes <= granted, checked at each free
//!     cache 2                 |- granted -|          granted grows when the bytes would exceed it
//! ```
//!
//! Invariant: the sum of what caches were granted is `granted`, which only [`Budget::extend`]
//! raises, and never above `total`. A cache returns its grant when it is flushed as a whole. So a
//! free into a cache compares with a number on the cache line that it writes anyway.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bounds the bytes of a cache to this fraction of the pool, since cached blocks do not coalesce.
pub(super) const CACHE_FRACTION: u64 = 32;

/// All caches may hold as much as this many. The transfer cache may hold as much as one, so a
/// quarter of the pool is cached at most.
pub(super) const CACHES_IN_ALL: u64 = 7;

/// The unit of `scale`: 1,024ths of the pool.
const SCALE: u64 = 1024;

/// Lower bound on `scale`: 2.7 %, less than the surplus of 4.8 % that the pool retains.
pub(crate) const LEAST_SCALE: u64 = 28;

/// Upper bound on `scale`: three quarters of the pool.
pub(crate) const MOST_SCALE: u64 = 768;

/// Heap operations without a call to upstream before the budget may grow by half.
const CALM_OPERATIONS: u64 = 1024;

/// One cache may hold this fraction of what all may hold.
const FRACTION_OF_ALL: u64 = 16;

/// The bytes that each cache may hold more where threads wait for each other. The pool grows by
/// as many, 256 MiB at most: a miss costs more than a microsecond there.
const ROOM_OF_EACH: u64 = 16 << 20;

/// The bytes that all caches of a small pool may hold, but at most half of the pool, or all of it
/// where memory can be extended: a few blocks for each stream keep calls away from the lock.
const LEAST_TOTAL: u64 = 2 << 20;

/// The bytes that a cache of a small pool may hold, but at most a quarter of the pool. The legacy
/// default stream needs an event for each round through its cache, which costs as much as some
/// dozens of allocations. Memory is never short for it: caches are flushed before a pool grows
/// beyond what it retains.
const LEAST_CAPACITY: u64 = 1 << 20;

/// The same where memory can be extended, but at most all of the pool: one of the largest blocks
/// that are not large, beside smaller ones.
const LEAST_CAPACITY_BY_DEMAND: u64 = LEAST_CAPACITY + LEAST_CAPACITY / 8;

/// A grant grows by this part of what is left, so that the last of many caches gets some, too.
const PART_OF_REST: u64 = 256;

/// Refusals between two looks for caches that should return their grants: to take one costs as much
/// as many calls that go past the caches.
pub(super) const MISSES_TOGETHER: u32 = 64;

/// What the caches of a pool may hold.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// The most bytes of a cache, without its large blocks.
    capacity: AtomicU64,
    /// A cache's fraction of the pool, which bounds the large blocks.
    fraction: AtomicU64,
    /// The most bytes of all caches.
    total: AtomicU64,
    /// Bytes that caches may hold now.
    granted: AtomicU64,
    /// Caches with a grant.
    holders: AtomicU64,
    /// Refusals so far, modulo 2^32.
    misses: AtomicU32,
    /// What all caches may hold by demand, in 1024ths of the pool; 0 at first.
    scale: AtomicU64,
    /// The operations on the heap when that was changed last, or memory was short.
    changed_at: AtomicU64,
}

/// What one cache may hold. Written by the thread that is inside its cell.
#[derive(Debug, Default)]
pub(super) struct Grant {
    bytes: AtomicU64,
}

impl Grant {
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Budget {
    /// The most bytes that a cache may hold, without its large blocks.
    #[inline]
    pub(super) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Whether what caches may hold depends on demand.
    pub(super) fn follows_demand(&self) -> bool {
        self.scale.load(Ordering::Relaxed) > 0
    }

    /// What bounds the large blocks of a cache.
    #[inline]
    pub(super) fn fraction(&self) -> u64 {
        self.fraction.load(Ordering::Relaxed)
    }

    /// Whether a block that is not large has a place in a cache by itself. In a small pool a cache
    /// may hold more than its fraction, but of smaller blocks. Where the bounds follow demand it
    /// may hold the largest of them, too: up to some hundred MiB its fraction is less than those,
    /// and memory that can be extended fragments less.
    pub(super) fn may_hold(&self, size: u64) -> bool {
        size <= if self.follows_demand() { self.capacity() } else { self.fraction() }
    }

    /// Bounds all to fractions of the pool's reserved bytes. The pool's lock is held. Returns
    /// whether one of them is higher now.
    pub(super) fn set_from(&self, reserved: u64) -> bool {
        let share = CACHES_IN_ALL * (reserved / CACHE_FRACTION);
        self.set_with_fixed_fraction(reserved, share.max(LEAST_TOTAL.min(reserved / 2)))
    }

    /// Sets the bounds by demand. Called when a cache is made or refuses a block: if no request has
    /// called upstream for [`CALM_OPERATIONS`], `scale` first grows by half, up to `most`. If twice
    /// as much is reserved as was ever in use, it grows to `most` at once. `room` is added. The
    /// pool's lock is held. Returns whether a bound is higher now.
    pub(super) fn set_by_demand(
        &self,
        (reserved, peak): (u64, u64),
        operations: u64,
        most: u64,
        room: u64,
    ) -> bool {
        let mut scale = self.scale.load(Ordering::Relaxed).max(LEAST_SCALE);
        if reserved / 2 > peak {
            scale = most;
        }
        let changed_at = self.changed_at.load(Ordering::Relaxed);
        if operations.wrapping_sub(changed_at) >= CALM_OPERATIONS {
            scale = (scale + scale / 2).min(most);
            self.changed_at.store(operations, Ordering::Relaxed);
        }
        self.scale.store(scale, Ordering::Relaxed);
        let total = (reserved / SCALE * scale).max(LEAST_TOTAL.min(reserved));
        let fraction = total / FRACTION_OF_ALL + room.min(ROOM_OF_EACH);
        let total = (total + room).min(reserved / SCALE * most).max(total);
        self.set(fraction, LEAST_CAPACITY_BY_DEMAND.min(reserved), total)
    }

    /// What all caches may hold beyond a part of the pool where threads wait for each other.
    pub(super) fn room(&self) -> u64 {
        self.holders.load(Ordering::Relaxed).min(FRACTION_OF_ALL) * ROOM_OF_EACH
    }

    /// Halves `scale`: a request has called upstream. The bounds follow at the next
    /// [`set_by_demand`](Self::set_by_demand), and caches keep their grants until they are flushed.
    /// The pool's lock is held.
    pub(super) fn note_shortage(&self, operations: u64) {
        let scale = self.scale.load(Ordering::Relaxed);
        self.scale.store((scale / 2).max(LEAST_SCALE), Ordering::Relaxed);
        self.changed_at.store(operations, Ordering::Relaxed);
    }

    /// Bounds all to the pool's reserved bytes. Blocks of one size do not
    /// coalesce, so that no memory is lost to other requests while it is cached: all caches
    /// together may hold whatever there is. Returns whether a bound is higher now.
    pub(super) fn set_from_blocks_of_one_size(&self, reserved: u64) -> bool {
        self.set_with_fixed_fraction(reserved, reserved)
    }

    fn set_with_fixed_fraction(&self, reserved: u64, total: u64) -> bool {
        self.set(reserved / CACHE_FRACTION, LEAST_CAPACITY.min(reserved / 4), total)
    }

    /// Sets the bounds. The pool's lock is held: nothing else writes them. Returns whether one of
    /// them is higher now.
    fn set(&self, fraction: u64, least_capacity: u64, total: u64) -> bool {
        let capacity = fraction.max(least_capacity);
        let bounds = [(&self.fraction, fraction), (&self.capacity, capacity), (&self.total, total)];
        let mut is_raised = false;
        for (bound, value) in bounds {
            let before = bound.load(Ordering::Relaxed);
            // All threads read the bounds, and a store takes the cache line from them.
            if before != value {
                bound.store(value, Ordering::Relaxed);
            }
            is_raised |= before < value;
        }
        is_raised
    }

    /// Lets a cache hold `bytes`, and probably a few more. Returns whether it may.
    #[cold]
    pub(super) fn extend(&self, grant: &Grant, bytes: u64) -> bool {
        let known = grant.bytes();
        let missing = bytes.saturating_sub(known);
        let total = self.total.load(Ordering::Relaxed);
        let more = |granted: u64| {
            let left = total.checked_sub(granted)?;
            let part = (left / PART_OF_REST).min(self.capacity() / 4);
            (missing <= left).then_some(granted + missing.max(part))
        };
        let relaxed = Ordering::Relaxed;
        let Ok(before) = self.granted.fetch_update(relaxed, relaxed, more) else { return false };
        let after = more(before).unwrap_or(before);
        self.holders.fetch_add(u64::from(known == 0), relaxed);
        grant.bytes.store(known + (after - before), relaxed);
        true
    }

    /// Takes a grant back. The cache is empty.
    pub(super) fn take_back(&self, grant: &Grant) {
        let bytes = grant.bytes.swap(0, Ordering::Relaxed);
        if bytes > 0 {
            self.granted.fetch_sub(bytes, Ordering::Relaxed);
            self.holders.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Bytes that caches may hold now.
    pub(super) fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }

    /// Whether little is left of it. Then caches keep small blocks only: more calls hit for each
    /// byte.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        let total = self.total.load(Ordering::Relaxed);
        self.granted.load(Ordering::Relaxed) >= total - total / 8
    }

    /// Whether a cache has more than twice its share.
    pub(super) fn is_exceeded_by(&self, grant: &Grant) -> bool {
        let holders = self.holders.load(Ordering::Relaxed).max(1);
        grant.bytes() > 2 * self.total.load(Ordering::Relaxed) / holders
    }

    /// Counts a refusal. Returns whether there were enough of them for another cache to return its
    /// grant.
    pub(super) fn is_short_at_miss(&self) -> bool {
        let misses = self.misses.load(Ordering::Relaxed).wrapping_add(1);
        self.misses.store(misses, Ordering::Relaxed);
        misses.is_multiple_of(MISSES_TOGETHER)
    }
}
