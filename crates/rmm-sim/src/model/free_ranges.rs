//! The free ranges of an address space.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// Free ranges by start; adjacent ranges are coalesced.
///
/// Address-ordered first fit: taking is linear in the number of free ranges, inserting logarithmic.
#[derive(Debug, Default)]
pub(crate) struct FreeRanges {
    /// # Invariant
    /// Lengths are not zero, and no range touches the next.
    free: BTreeMap<usize, usize>,
}

impl FreeRanges {
    /// Takes `len` bytes at the lowest start that is a multiple of `align` (a power of two).
    pub(crate) fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        let (start, at) = self.free.iter().find_map(|(&start, &free)| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(len)? <= start + free).then_some((start, at))
        })?;
        self.split(start, at, len);
        Some(at)
    }

    /// Takes the range `at..at + len`, if all of it is free.
    pub(crate) fn take_at(&mut self, at: usize, len: usize) -> bool {
        let Some((&start, &free)) = self.free.range(..=at).next_back() else { return false };
        let fits = at.checked_add(len).is_some_and(|end| end <= start + free);
        if fits {
            self.split(start, at, len);
        }
        fits
    }

    /// Removes the range `at..at + len`, all of which must be free.
    pub(crate) fn remove(&mut self, at: usize, len: usize) {
        let start = self.free.range(..=at).next_back().map(|(&start, _)| start);
        if let Some(start) = start {
            self.split(start, at, len);
        }
    }

    fn split(&mut self, start: usize, at: usize, len: usize) {
        let end = start + self.free.remove(&start).unwrap_or_default();
        debug_assert!(at + len <= end, "the range is free");
        if at > start {
            self.free.insert(start, at - start);
        }
        if end > at + len {
            self.free.insert(at + len, end - at - len);
        }
    }

    /// Inserts `at..at + len`; returns the coalesced range that contains it, as (start, length).
    pub(crate) fn insert(&mut self, at: usize, len: usize) -> (usize, usize) {
        let (mut start, mut end) = (at, at + len);
        if let Some((&before, &free)) = self.free.range(..at).next_back()
            && before + free == at
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(free) = self.free.remove(&end) {
            end += free;
        }
        self.free.insert(start, end - start);
        (start, end - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_lowest_fit_and_coalesces_on_insert() {
        let mut ranges = FreeRanges::default();
        assert_eq!(ranges.insert(0, 1000), (0, 1000));
        assert_eq!(ranges.take(100, 1), Some(0));
        assert_eq!(ranges.take(100, 64), Some(128));
        assert_eq!(ranges.take(28, 1), Some(100), "the gap left by alignment is used");
        assert_eq!(ranges.take(1000, 1), None);
        ranges.insert(0, 100);
        ranges.insert(128, 100);
        assert_eq!(ranges.insert(100, 28), (0, 1000));
        ranges.remove(400, 200);
        assert_eq!(ranges.take(500, 1), None);
        assert_eq!(ranges.take(400, 1), Some(0));
        assert!(!ranges.take_at(599, 10) && !ranges.take_at(900, 101) && ranges.take_at(900, 100));
        assert_eq!(ranges.take(300, 1), Some(600));
    }
}
