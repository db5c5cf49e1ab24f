//! A set of slots, a bit each: a few words instead of a cache line for each slot.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use super::SLOTS;

/// Changed by one thread at a time, with the pool's lock held; any thread may read it.
#[derive(Debug)]
pub(super) struct SlotSet([AtomicU64; SLOTS.div_ceil(64)]);

impl Default for SlotSet {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS.div_ceil(64)])
    }
}

impl SlotSet {
    pub(super) fn insert(&self, slot: usize) {
        self.0[slot / 64].fetch_or(1 << (slot % 64), Ordering::Relaxed);
    }

    pub(super) fn remove(&self, slot: usize) {
        self.0[slot / 64].fetch_and(!(1 << (slot % 64)), Ordering::Relaxed);
    }

    pub(super) fn contains(&self, slot: usize) -> bool {
        self.0[slot / 64].load(Ordering::Relaxed) >> (slot % 64) & 1 != 0
    }

    /// Whether the set is empty.
    pub(super) fn are_none(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..SLOTS).filter(|&slot| self.contains(slot))
    }
}
