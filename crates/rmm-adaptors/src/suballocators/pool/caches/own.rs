//! The fast path: a small block from or to the cache that the thread itself owns.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use rmm_core::StreamId;

use super::{CachePolicy, Caches, Class, Take};
use crate::sync::thread_token::ThreadToken;

impl Caches {
    /// The class of a request for `size` bytes, if such blocks are cached and not large.
    #[inline]
    pub(crate) fn small_class(&self, size: usize) -> Option<Class> {
        match self.policy {
            CachePolicy::SizeClasses | CachePolicy::SizeClassesByDemand { .. } => {
                Class::small(size as u64)
            }
            CachePolicy::OneSize(unit) => (size as u64 <= unit).then_some(Class::only(unit)),
            CachePolicy::Off => None,
        }
    }

    /// Takes a block of a class that is not large from a cache that no other thread can use.
    /// [`Take::NotHere`] says nothing about a cache that threads share.
    #[inline]
    pub(crate) fn take_own(&self, stream: StreamId, class: Class) -> Take {
        // A thread without a token has no cache.
        let slot = ThreadToken::registered().and_then(|me| self.owned(me, stream));
        let Some(slot) = slot else { return Take::NotHere };
        let taken =
            Self::enter(slot, stream, |cache, counters| match cache.take_small(class, counters) {
                Some(address) => Take::Done(address),
                None => self.miss(cache, class, counters),
            });
        taken.unwrap_or(Take::NotHere)
    }

    /// Caches a freed block of a class that is not large in a cache that no other thread can use.
    /// Returns whether the block is there; if not, [`put`](Self::put) may still cache it.
    #[inline]
    pub(crate) fn put_own(&self, stream: StreamId, class: Class, address: u64) -> bool {
        // Relaxed: as in `put`.
        if self.undersized_blocks.load(Ordering::Relaxed) > 0 {
            return false;
        }
        let slot = ThreadToken::registered().and_then(|me| self.owned(me, stream));
        let Some(slot) = slot else { return false };
        let put = Self::enter(slot, stream, |cache, counters| {
            cache.put_small(class, address, &self.budget, counters)
        });
        put.unwrap_or(false)
    }
}
