//! A contiguous part of a range, and the memory behind it.
#![forbid(unsafe_code)]

use std::ops::Range;

/// A part of a range that is contiguous in memory.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Its start in the program's addresses.
    pub(crate) address: usize,
    /// Its memory: elsewhere if it is mapped, else at the same addresses.
    pub(crate) backing: Range<usize>,
}

impl Piece {
    /// Memory that is not mapped, and lies at its own addresses.
    pub(crate) fn unmapped(range: &Range<usize>) -> Self {
        Self { address: range.start, backing: range.clone() }
    }

    /// A part of the backing in the program's addresses.
    pub(crate) fn name_of(&self, part: &Range<usize>) -> Range<usize> {
        let start = self.address + (part.start - self.backing.start);
        start..start + part.len()
    }
}
