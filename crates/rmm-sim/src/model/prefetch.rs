//! The last prefetch location of managed memory, as `cuMemRangeGetAttribute` returns it.
//!
//! It changes when the prefetch is enqueued. CUDA documents that the attribute "simply returns the
//! last location that the application requested to prefetch the memory range to", and not whether
//! the prefetch is complete or has begun.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;

use rmm_sys::CuMemLocation;

/// The page size of prefetches.
const PAGE: usize = 4096;

/// Ranges of whole pages that do not overlap, by start, each with its end and its location.
#[derive(Debug, Default)]
pub(crate) struct Prefetches(BTreeMap<usize, (usize, CuMemLocation)>);

/// The pages that contain a range.
fn pages(range: &Range<usize>) -> Range<usize> {
    range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE)
}

impl Prefetches {
    /// Records the prefetch of a range to a location.
    pub(crate) fn record(&mut self, range: &Range<usize>, location: CuMemLocation) {
        let pages = pages(range);
        self.clear(range);
        self.0.insert(pages.start, (pages.end, location));
    }

    /// Removes the locations of a range, which is newly allocated.
    pub(crate) fn clear(&mut self, range: &Range<usize>) {
        let pages = pages(range);
        self.cut(pages.start);
        self.cut(pages.end);
        let inside: Vec<usize> = self.0.range(pages).map(|(&start, _)| start).collect();
        for start in inside {
            self.0.remove(&start);
        }
    }

    /// The location that all of a range was last prefetched to.
    pub(crate) fn location_of(&self, range: &Range<usize>) -> Option<CuMemLocation> {
        let pages = pages(range);
        let (mut at, mut found) = (pages.start, None);
        while at < pages.end {
            let (_, &(end, location)) = self.0.range(..=at).next_back()?;
            if end <= at || found.is_some_and(|found| found != location) {
                return None;
            }
            (at, found) = (end, Some(location));
        }
        found
    }

    /// Splits a range at `at`.
    fn cut(&mut self, at: usize) {
        let Some((_, before)) = self.0.range_mut(..at).next_back() else { return };
        let (end, location) = *before;
        if end > at {
            before.0 = at;
            self.0.insert(at, (end, location));
        }
    }
}

#[cfg(test)]
mod tests {
    use rmm_sys::CuMemLocationType;

    use super::*;

    #[test]
    fn a_range_has_a_location_if_all_of_its_pages_have_it() {
        let [host, device] = [CuMemLocationType::HOST, CuMemLocationType::DEVICE]
            .map(|kind| CuMemLocation { kind, id: 0 });
        let mut prefetches = Prefetches::default();
        prefetches.record(&(0..3 * PAGE), host);
        prefetches.record(&(PAGE + 1..PAGE + 2), device);
        let of = |range| prefetches.location_of(&range);
        assert_eq!(of(0..PAGE), Some(host));
        assert_eq!(of(PAGE..2 * PAGE), Some(device));
        assert_eq!(of(2 * PAGE..3 * PAGE), Some(host));
        assert_eq!(of(0..PAGE + 1), None);
        assert_eq!(of(2 * PAGE..4 * PAGE), None);
        prefetches.record(&(2 * PAGE..4 * PAGE), device);
        assert_eq!(prefetches.location_of(&(PAGE..4 * PAGE)), Some(device));
        prefetches.clear(&(2 * PAGE..3 * PAGE));
        assert_eq!(prefetches.location_of(&(PAGE..4 * PAGE)), None);
        assert_eq!(prefetches.location_of(&(3 * PAGE..4 * PAGE)), Some(device));
    }
}
