//! Uses of a thread's cache without a lock: a miss changes nothing, not even counters.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use rmm_core::StreamId;

use super::{Caches, Class, Put};
use crate::sync::thread_token::ThreadToken;

impl Caches {
    /// As [`take`](Self::take), and a miss is not counted: the caller asks again.
    #[inline]
    pub(in super::super) fn take_now(&self, stream: StreamId, class: Class) -> Option<u64> {
        // A thread without a token has no cache, and gets a token under a lock.
        let me = ThreadToken::registered()?;
        self.with_as(me, stream, |cache, counters| cache.take(class, counters)).flatten()
    }

    /// As [`put`](Self::put), if that evicts no other block. `freed` runs before another thread can
    /// reach the block.
    #[inline]
    pub(in super::super) fn put_now(
        &self,
        stream: StreamId,
        class: Class,
        address: u64,
        freed: impl FnOnce(),
    ) -> bool {
        // Relaxed: as in `put`.
        if self.undersized_blocks.load(Ordering::Relaxed) > 0 || !self.keeps(stream, class) {
            return false;
        }
        let Some(me) = ThreadToken::registered() else { return false };
        let put = self.with_as(me, stream, |cache, counters| {
            let is_done = !cache.evicts(class)
                && cache.put(class, address, &self.budget, counters) == Put::Done;
            if is_done {
                freed();
            }
            is_done
        });
        put.unwrap_or(false)
    }
}
