//! A sum that all may read, written by one thread as long as it is alone.

#![forbid(unsafe_code)]

use super::primitives::atomic::{AtomicU64, Ordering};

/// A sum, which says nothing about other memory. Beside an [`Alone`](super::alone::Alone) that says
/// who may call what is only for one that is alone: those take a load and a store, the others an
/// atomic operation.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn subtract(&self, amount: u64) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }

    /// Replaces the sum by what `next` makes of it; if that is nothing, the error is the sum.
    #[inline]
    pub(crate) fn update(&self, next: impl FnMut(u64) -> Option<u64>) -> Result<(), u64> {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).map(|_| ())
    }

    /// As `add`, if no other thread writes meanwhile.
    #[inline]
    pub(crate) fn add_alone(&self, amount: u64) {
        self.0.store(self.get().wrapping_add(amount), Ordering::Relaxed);
    }

    /// As `subtract`, if no other thread writes meanwhile.
    #[inline]
    pub(crate) fn subtract_alone(&self, amount: u64) {
        self.0.store(self.get().wrapping_sub(amount), Ordering::Relaxed);
    }

    /// As `update`, if no other thread writes meanwhile.
    #[inline]
    pub(crate) fn update_alone(&self, next: impl FnOnce(u64) -> Option<u64>) -> Result<(), u64> {
        let sum = self.get();
        self.0.store(next(sum).ok_or(sum)?, Ordering::Relaxed);
        Ok(())
    }
}
