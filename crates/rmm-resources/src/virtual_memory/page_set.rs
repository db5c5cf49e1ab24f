//! A set of page numbers, kept as ranges.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;

/// Page numbers. Adjacent ones are one range: start to end.
#[derive(Clone, Debug, Default)]
pub(super) struct PageSet(BTreeMap<usize, usize>);

impl PageSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, in order. There is a gap between two of them.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.0.iter().map(|(&start, &end)| start..end)
    }

    /// The lowest number of `pages` that is in the set.
    pub(super) fn first_in(&self, pages: &Range<usize>) -> Option<usize> {
        let before = self.0.range(..=pages.start).next_back();
        if before.is_some_and(|(_, &end)| end > pages.start) {
            return Some(pages.start);
        }
        self.0.range(pages.clone()).next().map(|(&start, _)| start)
    }

    /// The lowest number of `pages` that is not in the set.
    pub(super) fn first_missing(&self, pages: &Range<usize>) -> Option<usize> {
        let before = self.0.range(..=pages.start).next_back();
        let gap = before.map_or(pages.start, |(_, &end)| end.max(pages.start));
        (gap < pages.end).then_some(gap)
    }

    /// Adds pages that are not in the set.
    pub(super) fn insert(&mut self, pages: Range<usize>) {
        debug_assert_eq!(self.first_in(&pages), None, "the pages are not in the set");
        let Range { mut start, mut end } = pages;
        if let Some((&before, &its_end)) = self.0.range(..start).next_back()
            && its_end == start
        {
            start = before;
        }
        if let Some(its_end) = self.0.remove(&end) {
            end = its_end;
        }
        self.0.insert(start, end);
    }

    /// Removes pages that are in the set.
    pub(super) fn remove(&mut self, pages: Range<usize>) {
        debug_assert_eq!(self.first_missing(&pages), None, "the pages are in the set");
        let Some((&start, end)) = self.0.range_mut(..=pages.start).next_back() else { return };
        let old_end = std::mem::replace(end, pages.start);
        if start == pages.start {
            self.0.remove(&start);
        }
        if pages.end < old_end {
            self.0.insert(pages.end, old_end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_agrees_with_a_set_of_numbers() {
        let (mut set, mut model) = (PageSet::default(), BTreeSet::new());
        let mut random = 1_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(random >> 33).unwrap() % below
        };
        for _ in 0..20_000 {
            let start = next(40);
            let pages = start..start + 1 + next(6);
            let held = pages.clone().find(|page| model.contains(page));
            let missing = pages.clone().find(|page| !model.contains(page));
            assert_eq!((set.first_in(&pages), set.first_missing(&pages)), (held, missing));
            if held.is_none() {
                set.insert(pages.clone());
                model.extend(pages);
            } else if missing.is_none() {
                set.remove(pages.clone());
                model.retain(|page| !pages.contains(page));
            }
            assert!(set.ranges().flatten().eq(model.iter().copied()));
            let ranges: Vec<_> = set.ranges().collect();
            assert!(ranges.windows(2).all(|two| two[0].end < two[1].start), "{ranges:?}");
            assert_eq!(set.is_empty(), model.is_empty());
        }
    }
}
