//! A sum that any thread may read, with cheaper updates while only one thread writes.

#![forbid(unsafe_code)]

use super::first_thread::Access;
use super::primitives::atomic::{AtomicU64, Ordering};

/// A relaxed sum: it orders no other memory. With exclusive [`Access`], an update is a load and a
/// store instead of an atomic read-modify-write.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn add(&self, access: &Access<'_>, amount: u64) {
        if access.is_exclusive() {
            self.0.store(self.get().wrapping_add(amount), Ordering::Relaxed);
        } else {
            self.0.fetch_add(amount, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn subtract(&self, access: &Access<'_>, amount: u64) {
        self.add(access, amount.wrapping_neg());
    }

    /// Replaces the sum by `next(sum)`; if that is `None`, the error is the sum.
    #[inline]
    pub(crate) fn update(
        &self,
        access: &Access<'_>,
        next: impl Fn(u64) -> Option<u64>,
    ) -> Result<(), u64> {
        if access.is_exclusive() {
            let sum = self.get();
            self.0.store(next(sum).ok_or(sum)?, Ordering::Relaxed);
            return Ok(());
        }
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).map(|_| ())
    }
}
