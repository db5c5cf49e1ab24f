//! The ranges that an allocator copies, unmaps and maps, with the blocks that are allocated there.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of addresses, which do not overlap: start to end.
#[derive(Debug, Default)]
pub(crate) struct Suspended(BTreeMap<usize, usize>);

impl Suspended {
    /// Suspends a range, or ends that of the range that starts there.
    pub(crate) fn set(&mut self, range: Range<usize>, is_suspended: bool) {
        if is_suspended {
            self.0.insert(range.start, range.end);
        } else {
            self.0.remove(&range.start);
        }
    }

    /// Whether all of a range is suspended.
    pub(crate) fn holds(&self, range: &Range<usize>) -> bool {
        if range.is_empty() {
            return false;
        }
        let mut at = range.start;
        while at < range.end {
            match self.0.range(..=at).next_back() {
                Some((_, &end)) if end > at => at = end,
                _ => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Suspended;

    #[test]
    fn adjacent_ranges_hold_what_spans_them() {
        let mut suspended = Suspended::default();
        suspended.set(10..20, true);
        suspended.set(20..30, true);
        assert!(suspended.holds(&(10..30)) && suspended.holds(&(15..25)));
        assert!(!suspended.holds(&(9..11)) && !suspended.holds(&(25..31)));
        suspended.set(20..30, false);
        assert!(suspended.holds(&(10..20)) && !suspended.holds(&(15..25)));
    }
}
