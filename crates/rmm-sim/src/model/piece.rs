//! A part of a range that lies in one piece.
#![forbid(unsafe_code)]

use std::ops::Range;

/// A part of a range that lies in one piece.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Its start, as the program names it.
    pub(crate) address: usize,
    /// Where it lies: elsewhere if it is mapped, else at the same addresses.
    pub(crate) backing: Range<usize>,
}

impl Piece {
    /// Memory that is known by the address at which it lies.
    pub(crate) fn unmapped(range: &Range<usize>) -> Self {
        Self { address: range.start, backing: range.clone() }
    }

    /// A part of the backing as the program names it.
    pub(crate) fn name_of(&self, part: &Range<usize>) -> Range<usize> {
        let start = self.address + (part.start - self.backing.start);
        start..start + part.len()
    }
}
