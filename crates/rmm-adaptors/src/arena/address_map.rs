//! A map from address ranges of superblocks to the arenas that own them.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// The end of a range, and its owner.
#[derive(Debug)]
struct Entry<T> {
    end: u64,
    /// The start of the range that was inserted. A range that was split off may by now be part of
    /// another superblock.
    base: u64,
    owner: T,
}

/// Ranges by their starts; they do not overlap.
#[derive(Debug)]
pub(super) struct AddressMap<T> {
    ranges: BTreeMap<u64, Entry<T>>,
}

/// A range, from its start to its end.
pub(super) type Range = (u64, u64);

impl<T: Clone> AddressMap<T> {
    pub(super) fn new() -> Self {
        Self { ranges: BTreeMap::new() }
    }

    /// Inserts a range.
    pub(super) fn add(&mut self, start: u64, bytes: u64, owner: T) {
        self.ranges.insert(start, Entry { end: start + bytes, base: start, owner });
    }

    /// The owner of the range that contains an address.
    pub(super) fn owner(&self, address: u64) -> Option<&T> {
        let (_, entry) = self.ranges.range(..=address).next_back()?;
        (address < entry.end).then_some(&entry.owner)
    }

    /// Removes a part of a range and returns the range as it was; `None` if no range contains all
    /// of the part.
    pub(super) fn remove_range(&mut self, start: u64, bytes: u64) -> Option<Range> {
        let (&first, entry) = self.ranges.range_mut(..=start).next_back()?;
        let (end, last, base) = (start + bytes, entry.end, entry.base);
        if end > last {
            return None;
        }
        let owner = entry.owner.clone();
        entry.end = start;
        if first == start {
            self.ranges.remove(&first);
        }
        if end < last {
            self.ranges.insert(end, Entry { end: last, base, owner });
        }
        Some((first, last))
    }

    /// Removes what is left of a range that was inserted with this start and size.
    pub(super) fn remove(&mut self, base: u64, bytes: u64) -> Vec<Range> {
        let ranges: Vec<Range> = self
            .ranges
            .range(base..base + bytes)
            .filter(|(_, entry)| entry.base == base)
            .map(|(&start, entry)| (start, entry.end))
            .collect();
        for (start, _) in &ranges {
            self.ranges.remove(start);
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_ranges_have_no_owner() {
        let mut map = AddressMap::new();
        map.add(100, 50, 'a');
        map.add(150, 50, 'b');
        assert_eq!(map.owner(99), None);
        assert_eq!(map.remove_range(120, 10), Some((100, 150)));
        let owners = [100, 119, 120, 129, 130, 149, 150].map(|address| map.owner(address).copied());
        assert_eq!(owners, [Some('a'), Some('a'), None, None, Some('a'), Some('a'), Some('b')]);
        assert_eq!(map.remove_range(100, 20), Some((100, 120)));
        assert_eq!(map.remove_range(140, 20), None, "it ends in another range");
        assert_eq!(map.remove(100, 50), [(130, 150)]);
        assert_eq!(map.remove(150, 50), [(150, 200)]);
        assert_eq!(map.owner(150), None);
    }

    #[test]
    fn a_split_off_range_may_join_another_superblock() {
        let mut map = AddressMap::new();
        map.add(100, 50, 'a');
        assert_eq!(map.remove_range(130, 20), Some((100, 150)));
        map.add(130, 50, 'b');
        assert_eq!(map.remove_range(100, 10), Some((100, 130)));
        map.add(60, 50, 'a');
        assert_eq!(map.remove(100, 50), [(110, 130)]);
        assert_eq!(map.remove(130, 50), [(130, 180)]);
        assert_eq!(map.remove(60, 50), [(60, 110)]);
    }
}
