//! Misses, and what caches do where threads wait for each other at the pool's lock.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use super::budget::LEAST_SCALE;
use super::cache::{Cache, Counters};
use super::{CachePolicy, Caches, Class, Take};

impl Caches {
    /// Serves a request of a class that has no block with one of the next classes if threads wait
    /// for each other, or counts a miss, and says what should be done about it. Out of line, so
    /// that a hit stays short.
    #[inline(never)]
    pub(super) fn miss(&self, cache: &mut Cache, class: Class, counters: &Counters) -> Take {
        if self.is_contended()
            && !matches!(self.policy, CachePolicy::OneSize(_))
            && let Some(address) = cache.take_larger(class, counters)
        {
            return Take::Done(address);
        }
        cache.note_miss();
        if cache.is_fence_due(class) {
            Take::Unfenced
        } else if cache.is_short(class) {
            Take::Short
        } else {
            Take::Missed
        }
    }

    /// Whether threads wait for each other at the pool's lock.
    #[inline]
    pub(crate) fn is_contended(&self) -> bool {
        self.is_contended.load(Ordering::Relaxed)
    }

    /// Sets what [`is_contended`](Self::is_contended) returns. The pool's lock is held.
    #[inline]
    pub(crate) fn set_contended(&self, is_contended: bool) {
        // Written when it changes, since every miss reads it.
        if self.is_contended() != is_contended {
            self.is_contended.store(is_contended, Ordering::Relaxed);
        }
    }

    /// Bytes that the pool may hold for its caches beyond what its program needs.
    pub(crate) fn room(&self) -> u64 {
        match self.policy {
            CachePolicy::SizeClassesByDemand { most }
                if most > LEAST_SCALE && self.is_contended() =>
            {
                self.budget.room()
            }
            _ => 0,
        }
    }
}
