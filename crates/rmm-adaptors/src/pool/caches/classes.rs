//! Sizes that cached blocks have: so few that a block freed is likely to be what is asked for next.

#![forbid(unsafe_code)]

use super::super::heap::GRANULE;

/// Larger blocks are not cached.
pub(super) const LARGEST: u64 = 1 << 20;

/// Sizes in a doubling, as a power of two: a block is less than a sixteenth larger than what was asked for.
const STEPS: u32 = 4;

/// How many classes there are.
pub(super) const CLASSES: usize = of_granules(LARGEST / GRANULE) + 1;

/// The size of all cached blocks that are alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Class(u8);

impl Class {
    /// The only class of a pool whose blocks are all of one size.
    pub(in super::super) const ONLY: Self = Self(0);

    /// The smallest class whose blocks hold `size` bytes, which are not zero; `None` if there is none.
    #[inline]
    pub(in super::super) fn holding(size: u64) -> Option<Self> {
        if size > LARGEST {
            return None;
        }
        // There are fewer than 256 classes.
        u8::try_from(of_granules(size.div_ceil(GRANULE))).ok().map(Self)
    }

    /// All classes, the smallest first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES).filter_map(|index| u8::try_from(index).ok()).map(Self)
    }

    /// Bytes of each of its blocks.
    pub(in super::super) fn block_size(self) -> u64 {
        let number = u64::from(self.0);
        let steps = 1 << STEPS;
        let granules = if number < 2 * steps {
            number + 1
        } else {
            (number % steps + steps + 1) << (number / steps - 1)
        };
        granules * GRANULE
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The number of the smallest class that holds so many granules, which are not zero.
#[expect(clippy::cast_possible_truncation, reason = "what is left after the shift is below 32")]
#[inline]
const fn of_granules(granules: u64) -> usize {
    let largest = granules - 1;
    let bits = u64::BITS - largest.leading_zeros();
    let doublings = bits.saturating_sub(STEPS + 1);
    ((doublings as usize) << STEPS) + (largest >> doublings) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_gets_the_smallest_class_that_holds_it() {
        let mut former: Option<Class> = None;
        for granules in 1..=LARGEST / GRANULE {
            let class = Class::holding(granules * GRANULE).expect("it is not too large");
            assert!(class.block_size() >= granules * GRANULE);
            if let Some(former) = former.filter(|&former| former != class) {
                assert_eq!(class.0, former.0 + 1);
                assert_eq!(former.block_size(), (granules - 1) * GRANULE, "the class is full");
            }
            former = Some(class);
        }
        let last = former.expect("there are sizes");
        assert_eq!((last.index() + 1, last.block_size()), (CLASSES, LARGEST));
    }

    #[test]
    fn little_is_lost_to_rounding() {
        for granules in 1..=LARGEST / GRANULE {
            let size = granules * GRANULE;
            let lost = Class::holding(size).expect("it is not too large").block_size() - size;
            assert!(lost * 16 < size, "{lost} bytes of {size}");
            assert!(lost == 0 || size > 8192, "{lost} bytes of {size}");
        }
    }

    #[test]
    fn large_blocks_have_no_class() {
        assert_eq!(Class::holding(LARGEST + 1), None);
        assert_eq!(Class::holding(1), Class::holding(GRANULE));
    }
}
