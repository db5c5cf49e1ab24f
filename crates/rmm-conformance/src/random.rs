//! A deterministic pseudo-random number generator.

/// The `SplitMix64` sequence.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The upper half of the next number.
    pub fn next_u32(&mut self) -> u32 {
        let [.., a, b, c, d] = (self.next_u64() >> 32).to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.next_u32().checked_rem(bound).unwrap_or(0)
    }

    /// A place in a list of `len` elements; 0 if there are none.
    pub fn index(&mut self, len: usize) -> usize {
        let bound = u32::try_from(len).unwrap_or(u32::MAX);
        usize::try_from(self.below(bound)).unwrap_or(0)
    }
}
