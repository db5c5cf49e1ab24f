//! Zones: small blocks apart from large ones.
//!
//! A small block that stays where a large one was, cached or live, keeps the free memory around it
//! from being one block again, and its pages from being unmapped. So small blocks are taken out of
//! *slabs*, each a part of a large free block, as PyTorch's and jemalloc's allocators do:
//!
//! ```text
//!     | large, live | small | small | free, small | large, free                | large, live |
//!                    '-------- a slab ----------'
//! ```
//!
//! The zone of a free block says who is served from it. It is a preference, not a border: where
//! memory is scarce, a request takes what it finds, and a run of free neighbours may span both. A
//! free part of a slab that has no other part of one beside it is large again.

#![forbid(unsafe_code)]

/// What a block is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Zone {
    Large,
    Small,
}

/// Slabs of a heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlabSizes {
    /// Whether there are any: only where memory can be extended. Elsewhere memory is never
    /// unmapped under small blocks, and slabs would take room that large ones have no other for.
    pub(super) are_made: bool,
    /// Bytes of a slab. A free part of a slab with as many is large again.
    pub(super) bytes: u64,
    /// The bytes that a heap has at least for each stream. In a smaller heap, small blocks of all
    /// streams share what there is: free parts of slabs are a small part of it.
    pub(super) heap_for_each: u64,
}

impl Default for SlabSizes {
    /// A page of virtual memory each, and an eighth of the heap in all.
    fn default() -> Self {
        Self { are_made: false, bytes: 2 << 20, heap_for_each: 16 << 20 }
    }
}

/// Which free blocks a request looks at, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tier {
    /// Free parts of slabs.
    Slabs,
    /// Large blocks that hold a slab, which becomes one.
    NewSlab,
    /// Large blocks of any size.
    Large,
}

impl Tier {
    pub(super) const OF_SMALL: [Self; 3] = [Self::Slabs, Self::NewSlab, Self::Large];
    pub(super) const OF_SMALL_WITHOUT_SLABS: [Self; 2] = [Self::Slabs, Self::Large];
    pub(super) const OF_LARGE: [Self; 1] = [Self::Large];

    /// The zone that it looks at.
    pub(super) fn zone(self) -> Zone {
        if self == Self::Slabs { Zone::Small } else { Zone::Large }
    }
}
