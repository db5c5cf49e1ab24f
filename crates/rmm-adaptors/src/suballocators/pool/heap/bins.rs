//! The bins of a two-level segregated fit (TLSF), and bitmaps of the non-empty ones.

#![forbid(unsafe_code)]

use crate::suballocators::pool::values::units::GRANULE;

/// Bits of the second level: each doubling of the size is divided into 32 bins.
const SECOND_BITS: u32 = 5;
const SECOND: u32 = 1 << SECOND_BITS;

/// Bins in all: sizes up to 2^48 granules (2^56 bytes) have one of their own; larger ones share the
/// last.
const FIRST: u32 = 48 - SECOND_BITS + 1;
const BINS: u32 = FIRST * SECOND;

/// A bin's number. Sizes of a higher bin are larger than those of a lower one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Bin(u32);

impl Bin {
    /// The bin of blocks of `size` bytes.
    ///
    /// Below 32 granules each size has its own bin. Above, a bin holds the sizes whose six highest
    /// bits agree, so that the smallest and the largest of a bin differ by less than 1/32.
    #[inline]
    pub(super) fn of(size: u64) -> Self {
        let granules = size / GRANULE;
        let shift = (granules | u64::from(SECOND)).ilog2() - SECOND_BITS;
        // The highest six bits, the leading one of which counts as one more doubling.
        let highest = u32::try_from(granules >> shift).expect("six bits of the number");
        Self((shift * SECOND + highest).min(BINS - 1))
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A two-level bitmap of the non-empty bins.
#[derive(Clone, Debug)]
pub(super) struct BinMap {
    /// Bit `i` is set if `second[i]` is not zero.
    first: u64,
    second: [u32; FIRST as usize],
}

impl BinMap {
    pub(super) const BINS: usize = BINS as usize;

    pub(super) const fn new() -> Self {
        Self { first: 0, second: [0; FIRST as usize] }
    }

    pub(super) fn set(&mut self, bin: Bin) {
        let (first, second) = (bin.0 / SECOND, bin.0 % SECOND);
        self.second[first as usize] |= 1 << second;
        self.first |= 1 << first;
    }

    pub(super) fn clear(&mut self, bin: Bin) {
        let (first, second) = (bin.0 / SECOND, bin.0 % SECOND);
        self.second[first as usize] &= !(1 << second);
        if self.second[first as usize] == 0 {
            self.first &= !(1 << first);
        }
    }

    /// The lowest bin from `bin` on that is not empty.
    pub(super) fn at_or_above(&self, bin: Bin) -> Option<Bin> {
        let (first, second) = (bin.0 / SECOND, bin.0 % SECOND);
        let here = self.second[first as usize] & (u32::MAX << second);
        if here != 0 {
            return Some(Bin(first * SECOND + here.trailing_zeros()));
        }
        // A shift by 64 or more would be an overflow: there is no bin above the last.
        let above = self.first & u64::MAX.checked_shl(first + 1).unwrap_or(0);
        if above == 0 {
            return None;
        }
        let first = above.trailing_zeros();
        Some(Bin(first * SECOND + self.second[first as usize].trailing_zeros()))
    }

    /// The highest bin that is not empty.
    pub(super) fn highest(&self) -> Option<Bin> {
        let first = self.first.checked_ilog2()?;
        Some(Bin(first * SECOND + self.second[first as usize].ilog2()))
    }

    /// The bin after `bin`, if there is one.
    pub(super) fn next(bin: Bin) -> Option<Bin> {
        (bin.0 + 1 < BINS).then_some(Bin(bin.0 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_grow_with_sizes_and_stay_narrow() {
        let mut last = Bin::of(GRANULE);
        let mut smallest = GRANULE;
        for granules in 1..200_000 {
            let size = granules * GRANULE;
            let bin = Bin::of(size);
            assert!(bin >= last, "{size}");
            if bin > last {
                (last, smallest) = (bin, size);
            }
            assert!((size - smallest) * 32 <= smallest, "bin of {smallest} holds {size}");
        }
    }

    #[test]
    fn every_size_has_a_bin() {
        assert!(Bin::of(u64::MAX).index() < BinMap::BINS);
        assert!(
            Bin::of(1 << 55) < Bin::of(1 << 56) || Bin::of(1 << 56).index() == BinMap::BINS - 1
        );
        assert_eq!(Bin::of(0).index(), 0);
    }

    #[test]
    fn the_map_finds_the_next_bin_that_is_set() {
        let mut map = BinMap::new();
        assert_eq!(map.at_or_above(Bin(0)), None);
        for bin in [3, 40, 41, 700, BINS - 1] {
            map.set(Bin(bin));
        }
        assert_eq!(map.at_or_above(Bin(0)), Some(Bin(3)));
        assert_eq!(map.at_or_above(Bin(3)), Some(Bin(3)));
        assert_eq!(map.at_or_above(Bin(4)), Some(Bin(40)));
        assert_eq!(map.at_or_above(Bin(42)), Some(Bin(700)));
        assert_eq!(map.at_or_above(Bin(701)), Some(Bin(BINS - 1)));
        assert_eq!(map.highest(), Some(Bin(BINS - 1)));
        map.clear(Bin(BINS - 1));
        assert_eq!(map.at_or_above(Bin(701)), None);
        assert_eq!(map.highest(), Some(Bin(700)));
    }
}
