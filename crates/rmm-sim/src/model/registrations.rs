//! Ranges that a library has registered, so that they may not go.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of addresses, which do not overlap: start to end.
#[derive(Debug, Default)]
pub(crate) struct Registrations(BTreeMap<usize, usize>);

impl Registrations {
    /// The first range that overlaps one.
    pub(crate) fn over(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let (&start, &end) = self.0.range(..range.end).next_back()?;
        // Those before it end before it begins.
        (end > range.start).then_some(start..end)
    }

    /// Adds a range; returns whether it overlaps none and is not empty.
    pub(crate) fn add(&mut self, range: Range<usize>) -> bool {
        let is_free = !range.is_empty() && self.over(&range).is_none();
        if is_free {
            self.0.insert(range.start, range.end);
        }
        is_free
    }

    /// Removes the range that starts there; returns whether there is one.
    pub(crate) fn remove(&mut self, start: usize) -> bool {
        self.0.remove(&start).is_some()
    }
}
