//! Size classes of cached blocks: so few that a freed block is likely to fit the next request.

#![forbid(unsafe_code)]

use crate::suballocators::pool::values::units::GRANULE;

/// The largest size that is rounded up to a class. Larger blocks have the size of the request.
const LARGEST: u64 = 1 << 20;

/// Classes per power of two, as a base-2 logarithm: a block is less than a sixteenth larger than
/// the request.
const STEPS: u32 = 4;

/// The number of size classes, without the large sizes.
pub(crate) const CLASSES: usize = of_granules(LARGEST / GRANULE) + 1;

/// The number that stands for every large size.
const LARGE_CLASS: u8 = u8::MAX;

/// A size class: the size of its blocks, and its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Class {
    /// # Invariant
    /// Below [`CLASSES`], or [`LARGE_CLASS`].
    number: u8,
    block_size: u64,
}

impl Class {
    /// The only class of a pool whose blocks all have this size.
    #[inline]
    pub(super) const fn only(block_size: u64) -> Self {
        Self { number: 0, block_size }
    }

    /// The smallest class whose blocks hold `size` bytes, which are not zero; `None` if no block
    /// does.
    #[inline]
    pub(crate) const fn holding(size: u64) -> Option<Self> {
        if size > LARGEST {
            return match size.checked_next_multiple_of(GRANULE) {
                Some(block_size) => Some(Self { number: LARGE_CLASS, block_size }),
                None => None,
            };
        }
        Self::small(size)
    }

    /// The smallest class whose blocks hold `size` bytes; `None` if that is large or the size is
    /// zero.
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 256 classes")]
    #[inline]
    pub(super) const fn small(size: u64) -> Option<Self> {
        let last = size.wrapping_sub(1);
        if last >= LARGEST {
            return None;
        }
        // With its lowest `doublings` bits cleared it is the last granule of a block of the class.
        let last = last / GRANULE;
        let doublings = doublings_of(last);
        let steps = last >> doublings;
        let number = ((doublings as u64) << STEPS) + steps;
        Some(Self { number: number as u8, block_size: ((steps + 1) * GRANULE) << doublings })
    }

    /// Bytes of each of its blocks.
    #[inline]
    pub(crate) const fn block_size(self) -> u64 {
        self.block_size
    }

    /// Whether its blocks are large: then only its size identifies it.
    #[inline]
    pub(crate) const fn is_large(self) -> bool {
        self.number == LARGE_CLASS
    }

    /// Whether a block of `size` bytes is large, in a pool whose blocks have different sizes.
    #[inline]
    pub(crate) const fn is_large_size(size: u64) -> bool {
        size > LARGEST
    }

    /// All size classes that are not large.
    pub(super) fn all() -> impl DoubleEndedIterator<Item = Self> {
        let numbers = 0..u8::try_from(CLASSES).unwrap_or(u8::MAX);
        numbers.map(|number| Self { number, block_size: size_of(number) })
    }

    /// The next classes, whose blocks are at most a quarter larger.
    pub(super) fn larger(self) -> impl Iterator<Item = Self> {
        let most = self.block_size.saturating_add(self.block_size / 4);
        let numbers = self.number.saturating_add(1)..u8::try_from(CLASSES).unwrap_or(u8::MAX);
        let all = numbers.map(|number| Self { number, block_size: size_of(number) });
        all.take_while(move |class| class.block_size <= most)
    }

    /// Its number, unless it [is large](Self::is_large).
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.number as usize
    }
}

/// The number of the smallest class that holds `granules` granules, which are not zero.
#[expect(clippy::cast_possible_truncation, reason = "what is left after the shift is below 32")]
#[inline]
const fn of_granules(granules: u64) -> usize {
    let last = granules - 1;
    let doublings = doublings_of(last);
    ((doublings as usize) << STEPS) + (last >> doublings) as usize
}

/// By how many bits the number of a block's last granule, from 0, is shortened: below 32, each
/// size has a class of its own.
#[inline]
const fn doublings_of(last: u64) -> u32 {
    (last | ((2 << STEPS) - 1)).ilog2() - STEPS
}

/// The size of the blocks of a class.
#[inline]
const fn size_of(number: u8) -> u64 {
    let number = number as u64;
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

    fn holding(size: u64) -> Class {
        Class::holding(size).expect("it is not too large")
    }

    #[test]
    fn each_size_gets_the_smallest_class_that_holds_it() {
        let mut former: Option<Class> = None;
        for granules in 1..=LARGEST / GRANULE {
            let class = holding(granules * GRANULE);
            assert!(class.block_size() >= granules * GRANULE);
            if let Some(former) = former.filter(|&former| former != class) {
                assert_eq!(class.index(), former.index() + 1);
                assert_eq!(former.block_size(), (granules - 1) * GRANULE, "the class is full");
            }
            former = Some(class);
        }
        let last = former.expect("there are sizes");
        assert_eq!((last.index() + 1, last.block_size()), (CLASSES, LARGEST));
    }

    #[test]
    fn a_number_stands_for_one_size() {
        for class in Class::all() {
            assert_eq!(Class::small(class.block_size()), Some(class));
        }
        assert_eq!([0, LARGEST + 1, u64::MAX].map(Class::small), [None; 3]);
    }

    #[test]
    fn little_is_lost_to_rounding() {
        for granules in 1..=LARGEST / GRANULE {
            let size = granules * GRANULE;
            let lost = holding(size).block_size() - size;
            assert!(lost * 16 < size, "{lost} bytes of {size}");
            assert!(lost == 0 || size > 8192, "{lost} bytes of {size}");
        }
    }

    #[test]
    fn larger_classes_follow_up_to_a_quarter_more() {
        for class in Class::all() {
            let (size, mut next) = (class.block_size(), class.index() + 1);
            for larger in class.larger() {
                assert!((size + 1..=size + size / 4).contains(&larger.block_size()), "{larger:?}");
                assert_eq!(larger.index(), next);
                next += 1;
            }
        }
        let after = |size| holding(size).larger().last().map(Class::block_size);
        assert_eq!([256, 1024, LARGEST].map(after), [None, Some(1280), None]);
        assert_eq!((after(32 << 10), after(LARGEST + 1)), (Some(40 << 10), None));
    }

    #[test]
    fn large_blocks_have_their_own_size() {
        let large = holding(LARGEST + 1);
        assert_eq!((large.is_large(), large.block_size()), (true, LARGEST + GRANULE));
        assert!(!holding(LARGEST).is_large());
        assert_eq!(Class::holding(u64::MAX), None);
    }
}
