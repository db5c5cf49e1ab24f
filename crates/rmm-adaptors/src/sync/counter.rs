//! A sum that any thread may read, with cheaper updates while only one thread writes.

#![forbid(unsafe_code)]

use super::primitives::atomic::{AtomicU64, Ordering};

/// A relaxed sum: it orders no other memory. An `_exclusive` update is a load and a store instead
/// of an atomic read-modify-write; a [`FirstThreadCell`](super::first_thread::FirstThreadCell)
/// beside the sum says which thread may use it.
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

    /// Replaces the sum by `next(sum)`; if that is `None`, the error is the sum.
    #[inline]
    pub(crate) fn update(&self, next: impl FnMut(u64) -> Option<u64>) -> Result<(), u64> {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).map(|_| ())
    }

    /// As [`add`](Self::add), while no other thread writes.
    #[inline]
    pub(crate) fn add_exclusive(&self, amount: u64) {
        self.0.store(self.get().wrapping_add(amount), Ordering::Relaxed);
    }

    /// As [`subtract`](Self::subtract), while no other thread writes.
    #[inline]
    pub(crate) fn subtract_exclusive(&self, amount: u64) {
        self.0.store(self.get().wrapping_sub(amount), Ordering::Relaxed);
    }

    /// As [`update`](Self::update), while no other thread writes.
    #[inline]
    pub(crate) fn update_exclusive(
        &self,
        next: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<(), u64> {
        let sum = self.get();
        self.0.store(next(sum).ok_or(sum)?, Ordering::Relaxed);
        Ok(())
    }
}
