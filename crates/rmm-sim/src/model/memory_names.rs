//! The names that the program gave to memory, for reports.
//!
//! ```text
//! named ----> live --freed by a suballocator--> kept for reports of a use after the free
//!              |                                     |
//!              +--- memory freed by the driver, -----+--> removed
//!                   allocated or named again
//! ```
//!
//! So there are at most as many names as there are suballocations and live allocations.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
struct Named {
    end: usize,
    name: Arc<str>,
    /// Whether a suballocator freed the memory since, and has not allocated it again.
    is_freed: bool,
}

/// Names by the start of the range; ranges do not overlap.
#[derive(Debug, Default)]
pub(crate) struct MemoryNames(BTreeMap<usize, Named>);

impl MemoryNames {
    /// Names a range, in place of all names that overlap it.
    pub(crate) fn insert(&mut self, range: &Range<usize>, name: &str) {
        self.remove(range);
        let named = Named { end: range.end, name: name.into(), is_freed: false };
        self.0.insert(range.start, named);
    }

    /// The name of the memory at an address.
    pub(crate) fn at(&self, address: usize) -> Option<&Arc<str>> {
        let (_, named) = self.0.range(..=address).next_back()?;
        (named.end > address).then_some(&named.name)
    }

    /// Keeps the name of a range that was freed until the range is allocated again.
    pub(crate) fn keep_freed(&mut self, start: usize) {
        if let Some(named) = self.0.get_mut(&start) {
            named.is_freed = true;
        }
    }

    /// Removes the name of a range whose owner has freed it, if no allocator has reported the free:
    /// the allocator will not report either when it allocates the range again.
    pub(crate) fn end(&mut self, start: usize) {
        if self.0.get(&start).is_some_and(|named| !named.is_freed) {
            self.0.remove(&start);
        }
    }

    /// Removes all names of a range.
    pub(crate) fn remove(&mut self, range: &Range<usize>) {
        while let Some((&start, named)) = self.0.range(..range.end).next_back()
            && named.end > range.start
        {
            self.0.remove(&start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(names: &MemoryNames, address: usize) -> Option<&str> {
        names.at(address).map(|name| &**name)
    }

    #[test]
    fn names_end_with_any_part_of_their_range() {
        let mut names = MemoryNames::default();
        names.insert(&(0..10), "a");
        names.insert(&(10..20), "b");
        names.insert(&(20..30), "c");
        assert_eq!(
            [9, 10, 29, 30].map(|address| at(&names, address).is_some()),
            [true, true, true, false]
        );
        names.remove(&(19..21));
        assert_eq!([9, 10, 20].map(|address| at(&names, address)), [Some("a"), None, None]);
        names.insert(&(5..6), "d");
        assert_eq!([4, 5, 6].map(|address| at(&names, address)), [None, Some("d"), None]);
    }

    #[test]
    fn a_name_outlives_a_free_that_the_allocator_reports() {
        let mut names = MemoryNames::default();
        for (is_reported, kept) in [(true, Some("a")), (false, None)] {
            names.insert(&(0..10), "a");
            if is_reported {
                names.keep_freed(0);
            }
            names.end(0);
            assert_eq!(at(&names, 0), kept);
        }
    }
}
