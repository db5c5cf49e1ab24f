//! What makes two blocks alike, so that one that was freed serves the next request.

#![forbid(unsafe_code)]

use super::super::heap::GRANULE;

/// Blocks up to this size come in few sizes, so that one that is freed is likely to be what is asked for next.
const LARGEST_ROUNDED: u64 = 1 << 20;

/// Sizes in a doubling, as a power of two: such a block is less than a sixteenth larger than what was asked for.
const STEPS: u32 = 4;

/// The sizes that there are of these blocks.
const ROUNDED: usize = of_granules(LARGEST_ROUNDED / GRANULE) + 1;

/// How many stacks there are: one for each of these sizes, and some that blocks of larger sizes, which programs repeat, share.
pub(super) const STACKS: usize = 256;

/// A size that blocks have, and the stack that they are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Class {
    stack: u8,
    size: u64,
}

impl Class {
    /// That of all blocks of a pool that has one size.
    pub(in super::super) const fn only(size: u64) -> Self {
        Self { stack: 0, size }
    }

    /// The class of a request for `size` bytes, a multiple of the granule and not zero.
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 256 stacks")]
    #[inline]
    pub(in super::super) const fn holding(size: u64) -> Self {
        if size <= LARGEST_ROUNDED {
            let number = of_granules(size / GRANULE);
            Self { stack: number as u8, size: size_of(number as u64) }
        } else {
            let shared = (STACKS - ROUNDED) as u64;
            let spread = (size / GRANULE).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            Self { stack: ROUNDED as u8 + ((spread * shared) >> 32) as u8, size }
        }
    }

    /// Bytes of each of its blocks.
    #[inline]
    pub(in super::super) fn block_size(self) -> u64 {
        self.size
    }

    #[inline]
    pub(super) fn stack(self) -> usize {
        usize::from(self.stack)
    }
}

/// The number of the smallest size that holds so many granules, which are not zero.
#[expect(clippy::cast_possible_truncation, reason = "what is left after the shift is below 32")]
#[inline]
const fn of_granules(granules: u64) -> usize {
    let largest = granules - 1;
    let bits = u64::BITS - largest.leading_zeros();
    let doublings = bits.saturating_sub(STEPS + 1);
    ((doublings as usize) << STEPS) + (largest >> doublings) as usize
}

/// The size with a number.
const fn size_of(number: u64) -> u64 {
    let steps = 1 << STEPS;
    let granules = if number < 2 * steps {
        number + 1
    } else {
        (number % steps + steps + 1) << (number / steps - 1)
    };
    granules * GRANULE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_gets_the_smallest_that_holds_it() {
        let mut former: Option<Class> = None;
        for granules in 1..=LARGEST_ROUNDED / GRANULE {
            let class = Class::holding(granules * GRANULE);
            assert!(class.block_size() >= granules * GRANULE);
            if let Some(former) = former.filter(|&former| former != class) {
                assert_eq!(class.stack, former.stack + 1);
                assert_eq!(former.block_size(), (granules - 1) * GRANULE, "the size is used");
            }
            former = Some(class);
        }
        let last = former.expect("there are sizes");
        assert_eq!((last.stack() + 1, last.block_size()), (ROUNDED, LARGEST_ROUNDED));
    }

    #[test]
    fn little_is_lost_to_rounding() {
        for granules in 1..=LARGEST_ROUNDED / GRANULE {
            let size = granules * GRANULE;
            let lost = Class::holding(size).block_size() - size;
            assert!(lost * 16 < size, "{lost} bytes of {size}");
            assert!(lost == 0 || size > 8192, "{lost} bytes of {size}");
        }
    }

    #[test]
    fn large_sizes_are_kept_and_spread_over_the_shared_stacks() {
        let mut used = [false; STACKS];
        for granules in 4097..8192 {
            let class = Class::holding(granules * GRANULE);
            assert_eq!(class.block_size(), granules * GRANULE);
            used[class.stack()] = true;
        }
        assert_eq!(used.iter().position(|&used| used), Some(ROUNDED));
        assert!(used[ROUNDED..].iter().all(|&used| used));
        assert_eq!(Class::holding(u64::MAX / GRANULE * GRANULE).block_size() % GRANULE, 0);
    }
}
