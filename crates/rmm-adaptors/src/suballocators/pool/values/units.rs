//! What all parts of a pool count in: bytes, lists of free blocks, and points in time.

#![forbid(unsafe_code)]

/// The unit of all sizes, and the alignment of every block.
pub(crate) const GRANULE: u64 = 256;

/// The granules of `bytes`, modulo 2^32.
#[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
#[inline]
pub(crate) const fn granules(bytes: u64) -> u32 {
    (bytes / GRANULE) as u32
}

/// A list of free blocks: list 0 is that of clean blocks, the others belong to streams.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ListId(pub(crate) u32);

impl ListId {
    /// Free blocks that no work uses any more: everybody may have them.
    pub(crate) const ANY_STREAM: Self = Self(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// When a free block may be used by others: the freeing stream's count at the time. Points of one
/// stream only grow.
pub(crate) type Point = u64;
