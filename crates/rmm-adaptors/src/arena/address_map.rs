//! Whose the pieces are that superblocks consist of, by address.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// Where a piece ends, and whose it is.
#[derive(Debug)]
struct Entry<T> {
    end: u64,
    /// Where the piece starts that it was cut out of: what was cut off may have become part of
    /// another.
    base: u64,
    owner: T,
}

/// Pieces by their starts. No two overlap.
#[derive(Debug)]
pub(super) struct AddressMap<T> {
    pieces: BTreeMap<u64, Entry<T>>,
}

/// A piece: from its start to its end.
pub(super) type Piece = (u64, u64);

impl<T: Clone> AddressMap<T> {
    pub(super) fn new() -> Self {
        Self { pieces: BTreeMap::new() }
    }

    /// Adds a piece.
    pub(super) fn add(&mut self, start: u64, bytes: u64, owner: T) {
        self.pieces.insert(start, Entry { end: start + bytes, base: start, owner });
    }

    /// Whose the piece is that holds an address.
    pub(super) fn owner(&self, address: u64) -> Option<&T> {
        let (_, entry) = self.pieces.range(..=address).next_back()?;
        (address < entry.end).then_some(&entry.owner)
    }

    /// Cuts a range out of the piece that it lies in. Returns the piece as it was.
    pub(super) fn cut(&mut self, start: u64, bytes: u64) -> Option<Piece> {
        let (&first, entry) = self.pieces.range_mut(..=start).next_back()?;
        let (end, last, base) = (start + bytes, entry.end, entry.base);
        if end > last {
            return None;
        }
        let owner = entry.owner.clone();
        entry.end = start;
        if first == start {
            self.pieces.remove(&first);
        }
        if end < last {
            self.pieces.insert(end, Entry { end: last, base, owner });
        }
        Some((first, last))
    }

    /// Removes what is left of a piece that was added with this start and size.
    pub(super) fn remove(&mut self, base: u64, bytes: u64) -> Vec<Piece> {
        let pieces: Vec<Piece> = self
            .pieces
            .range(base..base + bytes)
            .filter(|(_, entry)| entry.base == base)
            .map(|(&start, entry)| (start, entry.end))
            .collect();
        for (start, _) in &pieces {
            self.pieces.remove(start);
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_out_is_nobodys() {
        let mut directory = AddressMap::new();
        directory.add(100, 50, 'a');
        directory.add(150, 50, 'b');
        assert_eq!(directory.owner(99), None);
        assert_eq!(directory.cut(120, 10), Some((100, 150)));
        let owners =
            [100, 119, 120, 129, 130, 149, 150].map(|address| directory.owner(address).copied());
        assert_eq!(owners, [Some('a'), Some('a'), None, None, Some('a'), Some('a'), Some('b')]);
        assert_eq!(directory.cut(100, 20), Some((100, 120)));
        assert_eq!(directory.cut(140, 20), None, "it ends in another piece");
        assert_eq!(directory.remove(100, 50), [(130, 150)]);
        assert_eq!(directory.remove(150, 50), [(150, 200)]);
        assert_eq!(directory.owner(150), None);
    }

    #[test]
    fn what_was_cut_off_may_be_part_of_another_piece() {
        let mut directory = AddressMap::new();
        directory.add(100, 50, 'a');
        assert_eq!(directory.cut(130, 20), Some((100, 150)));
        directory.add(130, 50, 'b');
        assert_eq!(directory.cut(100, 10), Some((100, 130)));
        directory.add(60, 50, 'a');
        assert_eq!(directory.remove(100, 50), [(110, 130)]);
        assert_eq!(directory.remove(130, 50), [(130, 180)]);
        assert_eq!(directory.remove(60, 50), [(60, 110)]);
    }
}
