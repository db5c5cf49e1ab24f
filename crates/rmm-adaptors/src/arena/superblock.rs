//! One superblock: a first-fit allocator over 4096 granules, with boundary tags.
//!
//! ```text
//!   granules   | A  A  A | -  -  - | B  B |    A, B: live blocks; -: a free block
//!   starts       3L 0  0   3  0  0   2L 0      size at the first granule of a block; L: `LIVE`
//!   ends         0  0  0   0  0  3   0  0      size at the last granule of a free block
//!   bounds       an upper bound on `ends` for each group of 64 granules
//! ```
//!
//! A free finds its block in `starts`, the next block there too, and the previous one, if free, in
//! `ends` (Knuth's boundary tags). Allocation takes the front of a free block, which changes its
//! entry of `ends` in place. A search compares the bounds, then one group; a bound that was too
//! high is corrected. So each step looks at the bounds and one group, and corrects each bound at
//! most once.

#![forbid(unsafe_code)]

use super::first_fit::first_fit;
use crate::pool::Slice;

/// The unit of sizes.
pub(super) const GRANULE: u64 = 256;
/// Bytes of a superblock, and of its largest block.
pub(super) const SUPERBLOCK: u64 = 1 << 20;
/// Granules of a superblock.
pub(super) const GRANULES: u16 = 4096;

const ALL: usize = GRANULES as usize;
/// Entries of `ends` that share a bound.
const GROUP: usize = 64;
/// Flag in `starts`: the block is live.
const LIVE: u16 = 1 << 15;

const _: () = assert!(SUPERBLOCK == GRANULE * GRANULES as u64 && GRANULES < LIVE);

/// Sizes and positions are in granules.
#[derive(Debug)]
pub(super) struct Superblock {
    /// At the first granule of each block, its size, with [`LIVE`] if it is live; 0 elsewhere.
    starts: Box<[u16; ALL]>,
    /// At the last granule of each free block, its size; 0 elsewhere.
    ends: Box<[u16; ALL]>,
    /// For each group of `ends`, an upper bound on its entries.
    bounds: [u16; ALL / GROUP],
    free: u16,
    /// Granules of all blocks: those that were not transferred to the global arena.
    held: u16,
}

impl Superblock {
    /// One free block.
    pub(super) fn new() -> Self {
        let mut new = Self {
            starts: Box::new([0; ALL]),
            ends: Box::new([0; ALL]),
            bounds: [0; ALL / GROUP],
            free: GRANULES,
            held: GRANULES,
        };
        new.note_free(0, GRANULES);
        new
    }

    /// Whether no block is live.
    pub(super) fn is_idle(&self) -> bool {
        self.free == self.held
    }

    /// Whether all of its blocks were transferred to the global arena.
    pub(super) fn is_gone(&self) -> bool {
        self.held == 0
    }

    /// Whether none of its blocks was transferred to the global arena.
    pub(super) fn is_whole(&self) -> bool {
        self.held == GRANULES
    }

    /// Whether it is empty: one free block.
    pub(super) fn is_empty(&self) -> bool {
        self.free == GRANULES
    }

    /// Bytes of free blocks.
    pub(super) fn free_bytes(&self) -> u64 {
        u64::from(self.free) * GRANULE
    }

    /// Bytes of live blocks.
    pub(super) fn live_bytes(&self) -> u64 {
        u64::from(self.held - self.free) * GRANULE
    }

    /// An upper bound on the size of free blocks.
    pub(super) fn bound(&self) -> u16 {
        self.bounds.iter().copied().fold(0, u16::max)
    }

    /// Allocates from the front of the first free block that is large enough. Returns its position.
    pub(super) fn allocate(&mut self, size: u16) -> Option<u16> {
        let mut from = 0;
        loop {
            let group = from + first_fit(&self.bounds[from..], size)?;
            let ends = &self.ends[group * GROUP..][..GROUP];
            if let Some(end) = first_fit(ends, size) {
                return Some(self.split_front(group * GROUP + end, size));
            }
            self.bounds[group] = ends.iter().copied().fold(0, u16::max);
            from = group + 1;
        }
    }

    fn split_front(&mut self, end: usize, size: u16) -> u16 {
        let whole = self.ends[end];
        let start = end + 1 - usize::from(whole);
        let rest = whole - size;
        self.starts[start] = size | LIVE;
        self.ends[end] = rest;
        if rest > 0 {
            self.starts[start + usize::from(size)] = rest;
        }
        self.free -= size;
        place(start)
    }

    /// Shortens the live block at a position to `size` granules; frees the rest.
    pub(super) fn trim_back(&mut self, at: u16, size: u16) {
        if let Some(whole) = self.live_size(at)
            && size > 0
            && size < whole
        {
            self.starts[usize::from(at)] = size | LIVE;
            self.starts[usize::from(at + size)] = (whole - size) | LIVE;
            self.free(at + size);
        }
    }

    /// Moves the start of the live block at a position by `by` granules; frees the granules before.
    /// Returns its new position.
    pub(super) fn trim_front(&mut self, at: u16, by: u16) -> u16 {
        match self.live_size(at) {
            Some(whole) if by > 0 && by < whole => {
                self.starts[usize::from(at)] = by | LIVE;
                self.starts[usize::from(at + by)] = (whole - by) | LIVE;
                self.free(at);
                at + by
            }
            _ => at,
        }
    }

    /// The size of the live block at a position.
    pub(super) fn live_size(&self, at: u16) -> Option<u16> {
        let tag = *self.starts.get(usize::from(at))?;
        (tag & LIVE != 0).then_some(tag & !LIVE)
    }

    /// Frees a block and coalesces it with its free neighbours. Returns its size and that of the
    /// coalesced block; `None` if there is no live block at the position.
    pub(super) fn free(&mut self, at: u16) -> Option<(u16, u16)> {
        let size = self.live_size(at)?;
        let (mut start, mut whole) = (usize::from(at), size);
        let after = start + usize::from(size);
        if let Some(next) = self.starts.get_mut(after)
            && *next & LIVE == 0
        {
            whole += std::mem::take(next);
        }
        if start > 0 {
            let before = std::mem::take(&mut self.ends[start - 1]);
            if before > 0 {
                self.starts[start] = 0;
                start -= usize::from(before);
                whole += before;
            }
        }
        self.free += size;
        self.note_free(start, whole);
        Some((size, whole))
    }

    fn note_free(&mut self, start: usize, size: u16) {
        let end = start + usize::from(size) - 1;
        self.starts[start] = size;
        self.ends[end] = size;
        let bound = &mut self.bounds[end / GROUP];
        *bound = size.max(*bound);
    }

    /// Removes a live block: its granules are no longer part of the superblock. Returns its size.
    pub(super) fn transfer_to_global(&mut self, at: u16) -> Option<u16> {
        let size = self.live_size(at)?;
        self.starts[usize::from(at)] = 0;
        self.held -= size;
        Some(size)
    }

    /// The blocks that start in this range, in order, each with its position.
    pub(super) fn slices(&self, from: u16, to: u16) -> impl Iterator<Item = (u16, Slice)> + '_ {
        let tagged = self.starts.iter().enumerate().take(usize::from(to)).skip(usize::from(from));
        tagged.filter(|&(_, &tag)| tag != 0).map(|(start, &tag)| {
            let part = Slice { bytes: u64::from(tag & !LIVE) * GRANULE, is_live: tag & LIVE != 0 };
            (place(start), part)
        })
    }
}

/// A position as it is stored.
fn place(start: usize) -> u16 {
    u16::try_from(start).unwrap_or(GRANULES)
}
