//! Whether an address may lie in a span, without the pool's lock: a counting Bloom filter with one
//! hash over pages of 2 MiB.

#![forbid(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A power of two: as many pages as 32 GiB have.
const COUNTERS: usize = 1 << 14;

const PAGE_BITS: u32 = 21;

/// Made with the first span.
#[derive(Debug, Default)]
pub(super) struct SpanFilter {
    counters: OnceLock<Box<[AtomicU32]>>,
}

impl SpanFilter {
    /// Whether a span may cover the address. If not, none does that the calling thread knows of.
    #[inline]
    pub(super) fn may_cover(&self, address: u64) -> bool {
        let Some(counters) = self.counters.get() else { return false };
        counters[Self::place(address >> PAGE_BITS)].load(Ordering::Relaxed) > 0
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low bits are all that is used")]
    #[inline]
    fn place(page: u64) -> usize {
        page as usize % COUNTERS
    }

    /// Adds a span. One thread at a time.
    pub(super) fn add(&self, (start, size): (u64, u64)) {
        let make = || (0..COUNTERS).map(|_| AtomicU32::new(0)).collect();
        let counters = self.counters.get_or_init(make);
        for page in Self::pages(start, size) {
            counters[Self::place(page)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes a span that was added.
    pub(super) fn remove(&self, (start, size): (u64, u64)) {
        let Some(counters) = self.counters.get() else { return };
        for page in Self::pages(start, size) {
            counters[Self::place(page)].fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn pages(start: u64, size: u64) -> impl Iterator<Item = u64> {
        start >> PAGE_BITS..=(start + size - 1) >> PAGE_BITS
    }

    /// Host bytes.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        self.counters.get().map_or(0, |counters| size_of_val(&**counters) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_covers_what_was_added_until_that_is_removed() {
        let (filter, page) = (SpanFilter::default(), 1 << PAGE_BITS);
        assert!(!filter.may_cover(0));
        let spans = [(page / 2, page), (page + 256, 512), (9 * page, 3 * page)];
        for range in spans {
            filter.add(range);
        }
        let all = |filter: &SpanFilter| -> Vec<u64> {
            (0..20).filter(|number| filter.may_cover(number * page)).collect()
        };
        assert_eq!(all(&filter), [0, 1, 9, 10, 11]);
        filter.remove((page / 2, page));
        assert_eq!(all(&filter), [1, 9, 10, 11]);
        for &range in &spans[1..] {
            filter.remove(range);
        }
        assert_eq!(all(&filter), []);
    }
}
