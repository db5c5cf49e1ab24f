//! Whose the pieces are that superblocks consist of, by address.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// Where a piece ends, and whose it is.
#[derive(Debug)]
struct Entry<T> {
    end: u64,
    owner: T,
}

/// Pieces by their starts. No two overlap.
#[derive(Debug)]
pub(super) struct Directory<T> {
    pieces: BTreeMap<u64, Entry<T>>,
}

/// A piece: from its start to its end.
pub(super) type Piece = (u64, u64);

impl<T: Clone> Directory<T> {
    pub(super) fn new() -> Self {
        Self { pieces: BTreeMap::new() }
    }

    /// Adds a piece.
    pub(super) fn add(&mut self, start: u64, bytes: u64, owner: T) {
        self.pieces.insert(start, Entry { end: start + bytes, owner });
    }

    /// Whose the piece is that holds an address.
    pub(super) fn owner(&self, address: u64) -> Option<&T> {
        let (_, entry) = self.pieces.range(..=address).next_back()?;
        (address < entry.end).then_some(&entry.owner)
    }

    /// Cuts a range out of the piece that it lies in. Returns the piece as it was.
    pub(super) fn cut(&mut self, start: u64, bytes: u64) -> Option<Piece> {
        let (&first, entry) = self.pieces.range_mut(..=start).next_back()?;
        let (end, last) = (start + bytes, entry.end);
        if end > last {
            return None;
        }
        let owner = entry.owner.clone();
        entry.end = start;
        if first == start {
            self.pieces.remove(&first);
        }
        if end < last {
            self.pieces.insert(end, Entry { end: last, owner });
        }
        Some((first, last))
    }

    /// Removes the pieces in a range. No piece lies partly in it.
    pub(super) fn remove(&mut self, start: u64, bytes: u64) -> Vec<Piece> {
        let pieces: Vec<Piece> = self
            .pieces
            .range(start..start + bytes)
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
        let mut directory = Directory::new();
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
}
