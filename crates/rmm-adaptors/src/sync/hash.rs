//! Hashing of addresses and ids, which need no defence against an adversary and should cost next to
//! nothing.

#![forbid(unsafe_code)]

use std::hash::{BuildHasherDefault, Hasher};

/// Builds an [`IdHasher`].
pub(crate) type BuildIdHasher = BuildHasherDefault<IdHasher>;

/// One multiplication by 2^64 divided by the golden ratio, which spreads multiples of 256 as well
/// as small numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        // Tables take their bits from both ends; the product's best bits are its highest.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
