//! How many pieces a pool may exchange: unmap in one place to map others in another, so that it
//! holds little more than its program uses.
//!
//! An exchange costs about 60 us on an H200, thousands of allocations. So a pool that grows may
//! exchange as many pieces as it has mapped in all, which at most doubles the time of its growth,
//! and later one in [`OPERATIONS`]: then it holds more instead, up to a limit.

#![forbid(unsafe_code)]

/// Allocations and frees in the heap for each exchange.
const OPERATIONS: u64 = 4096;

/// What a pool has exchanged so far, and what it has earned.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// Pieces that make up the most bytes that were ever reserved.
    mapped: u64,
    most_reserved: u64,
    exchanged: u64,
}

impl Exchanges {
    /// Notes that `pieces` pieces were mapped, after which `reserved` bytes are.
    pub(crate) fn note_growth(&mut self, pieces: u64, reserved: u64) {
        if reserved > self.most_reserved {
            self.most_reserved = reserved;
            self.mapped += pieces;
        }
    }

    /// How many pieces may be exchanged now, after `operations` operations in all.
    pub(crate) fn allowed(&self, operations: u64) -> u64 {
        (self.mapped + operations / OPERATIONS).saturating_sub(self.exchanged)
    }

    /// Notes that `pieces` pieces are exchanged.
    pub(crate) fn note(&mut self, pieces: u64) {
        self.exchanged += pieces;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_are_earned_by_growth_and_by_operations() {
        let mut exchanges = Exchanges::default();
        assert_eq!(exchanges.allowed(OPERATIONS - 1), 0);
        exchanges.note_growth(3, 6);
        exchanges.note(2);
        assert_eq!(exchanges.allowed(0), 1);
        exchanges.note_growth(2, 5);
        assert_eq!(exchanges.allowed(0), 1, "it has held as much before");
        exchanges.note(9);
        assert_eq!((exchanges.allowed(0), exchanges.allowed(9 * OPERATIONS)), (0, 1));
    }
}
