//! What any thread may read of a cache's slot.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rmm_core::StreamId;

use super::cache::Counters;
use crate::sync::primitives::atomic::AtomicU64 as StreamNumber;

/// Stands for no stream.
const NO_STREAM: u64 = 0;

/// Misses of threads that cannot get a slot after which they take it from its owner: revoking a
/// bias costs as much as many calls that go past the caches.
pub(super) const STEAL_AFTER_MISSES: u32 = 64;

/// The header of a slot.
#[derive(Debug, Default)]
pub(super) struct SlotHeader {
    /// The id of the stream whose blocks are in the cache.
    ///
    /// # Invariant
    /// Changed only during a revocation of the slot, while its cache is empty. The stream has a
    /// free list, which is neither recycled nor retired before this is cleared.
    stream: StreamNumber,
    /// Misses for which the slot was wanted, and another's.
    misses: AtomicU32,
    /// Host memory of the cache.
    pub(super) host_bytes: AtomicU64,
    pub(super) counters: Counters,
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

    /// Counts a miss; whether there were so many that the slot is to be taken from its owner.
    pub(super) fn is_stolen_at_miss(&self) -> bool {
        let misses = self.misses.fetch_add(1, Ordering::Relaxed) + 1;
        misses.is_multiple_of(STEAL_AFTER_MISSES)
    }
}
