//! The free addresses of the reserved ranges.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

/// The free address ranges. Adjacent free ranges are coalesced, unless they belong to different
/// reservations, since the driver maps nothing across a boundary.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// Free ranges: start to length.
    free: BTreeMap<u64, u64>,
    /// The starts of the reservations.
    starts: BTreeSet<u64>,
}

impl Addresses {
    /// Adds a new reservation.
    pub(super) fn add(&mut self, start: u64, bytes: u64) {
        self.starts.insert(start);
        self.starts.insert(start + bytes);
        self.free.insert(start, bytes);
    }

    /// Takes that many bytes from the lowest free range that fits (first fit).
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&start, _) = self.free.iter().find(|&(_, &free)| free >= bytes)?;
        self.take_at(start, bytes).then_some(start)
    }

    /// Takes this range, if all of it is free.
    pub(super) fn take_at(&mut self, start: u64, bytes: u64) -> bool {
        let Some((&from, &free)) = self.free.range(..=start).next_back() else { return false };
        let (Some(end), free_end) = (start.checked_add(bytes), from + free) else { return false };
        if end > free_end {
            return false;
        }
        if from < start {
            self.free.insert(from, start - from);
        } else {
            self.free.remove(&from);
        }
        if end < free_end {
            self.free.insert(end, free_end - end);
        }
        true
    }

    /// Frees a range, and coalesces it with its neighbours.
    pub(super) fn release(&mut self, start: u64, bytes: u64) {
        let (mut start, mut bytes) = (start, bytes);
        if let Some((&before, &free)) = self.free.range(..start).next_back()
            && before + free == start
            && !self.starts.contains(&start)
        {
            (start, bytes) = (before, bytes + free);
        }
        if !self.starts.contains(&(start + bytes))
            && let Some(free) = self.free.remove(&(start + bytes))
        {
            bytes += free;
        }
        self.free.insert(start, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::Addresses;

    #[test]
    fn the_lowest_range_is_taken_and_free_ranges_coalesce() {
        let mut addresses = Addresses::default();
        addresses.add(100, 10);
        addresses.add(50, 10);
        assert_eq!(addresses.take(10), Some(50));
        assert_eq!((addresses.take(4), addresses.take(4)), (Some(100), Some(104)));
        assert_eq!(addresses.take(3), None);
        addresses.release(100, 4);
        addresses.release(104, 4);
        assert_eq!(addresses.take(10), Some(100));
    }

    #[test]
    fn ranges_of_different_reservations_do_not_coalesce() {
        let mut addresses = Addresses::default();
        addresses.add(100, 10);
        addresses.add(110, 10);
        assert_eq!(addresses.take(11), None);
        assert_eq!((addresses.take(10), addresses.take(10)), (Some(100), Some(110)));
        addresses.release(100, 10);
        addresses.release(110, 10);
        assert!(!addresses.take_at(105, 10));
        assert_eq!(addresses.take(11), None);
    }

    #[test]
    fn a_range_is_taken_if_all_of_it_is_free() {
        let mut addresses = Addresses::default();
        addresses.add(100, 10);
        assert!(addresses.take_at(104, 2));
        assert!(!addresses.take_at(103, 2) && !addresses.take_at(105, 2));
        assert!(!addresses.take_at(108, 3) && !addresses.take_at(99, 2));
        assert!(!addresses.take_at(108, u64::MAX));
        assert!(addresses.take_at(106, 4) && addresses.take_at(100, 4));
        assert_eq!(addresses.take(1), None);
    }
}
