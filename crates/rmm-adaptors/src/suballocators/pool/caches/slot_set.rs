//! A set of slots, a bit each: a few words instead of a cache line for each slot.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// First slots, of the thread that comes first on a stream: mostly more than there are streams at
/// work, so that few streams share one.
pub(super) const FIRST_SLOTS: usize = if cfg!(rmm_loom) { 1 } else { 256 };
/// Bounds the rows of further slots: threads whose numbers differ by a multiple share a row.
pub(super) const THREAD_ROWS: usize = if cfg!(rmm_loom) { 1 } else { 32 };
/// Further slots in a row: streams whose ids differ by a multiple share one.
pub(super) const SLOTS_PER_ROW: usize = if cfg!(rmm_loom) { 1 } else { 8 };
pub(super) const SLOTS: usize = FIRST_SLOTS + THREAD_ROWS * SLOTS_PER_ROW;

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
        self.change(slot, |word, bit| word | bit);
    }

    pub(super) fn remove(&self, slot: usize) {
        self.change(slot, |word, bit| word & !bit);
    }

    /// Without a read-modify-write: there is one writer at a time.
    fn change(&self, slot: usize, change: impl FnOnce(u64, u64) -> u64) {
        let word = &self.0[slot / 64];
        word.store(change(word.load(Ordering::Relaxed), 1 << (slot % 64)), Ordering::Relaxed);
    }

    /// Whether the set is empty.
    pub(super) fn are_none(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().zip((0..).step_by(64)).flat_map(|(word, first)| {
            let mut bits = word.load(Ordering::Relaxed);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(first + bit)
            })
        })
    }
}
