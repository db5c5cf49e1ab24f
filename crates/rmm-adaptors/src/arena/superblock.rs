//! One superblock: which of its granules are free, and where a size goes.
//!
//! A block is found from its start, a free one from its last granule as well, so that a freed block
//! finds both neighbours. The sizes of free blocks stand at their *ends*: to take from a block's
//! front changes one of them, in place. The largest size of each group of ends is bounded from
//! above; a search that finds less corrects the bound. So no step looks at more than one group and
//! the bounds, but for a bound that is corrected once.

#![forbid(unsafe_code)]

use super::fit::first_fit;
use crate::pool::Slice;

/// The unit of sizes.
pub(super) const GRANULE: u64 = 256;
/// Bytes of a superblock, and the most that a block in one has.
pub(super) const SUPERBLOCK: u64 = 1 << 20;
/// Granules of a superblock.
pub(super) const GRANULES: u16 = 4096;

const ALL: usize = GRANULES as usize;
/// Ends whose sizes share a bound.
const GROUP: usize = 64;
/// Set in the size at the start of a block that is handed out.
const LIVE: u16 = 1 << 15;

const _: () = assert!(SUPERBLOCK == GRANULE * GRANULES as u64 && GRANULES < LIVE);

/// Sizes and places in granules.
#[derive(Debug)]
pub(super) struct Superblock {
    /// At the first granule of each block its size, with [`LIVE`] if it is handed out; 0 elsewhere.
    starts: Box<[u16; ALL]>,
    /// At the last granule of each free block its size; 0 elsewhere.
    ends: Box<[u16; ALL]>,
    /// No size in a group of ends is larger.
    bounds: [u16; ALL / GROUP],
    free: u16,
    /// Granules of all blocks: all but those that were surrendered.
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

    /// Whether nothing of it is handed out.
    pub(super) fn is_idle(&self) -> bool {
        self.free == self.held
    }

    /// Whether all of its blocks were surrendered.
    pub(super) fn is_gone(&self) -> bool {
        self.held == 0
    }

    /// Whether it is one free block, as at first.
    pub(super) fn is_new(&self) -> bool {
        self.free == GRANULES
    }

    /// Bytes of its free blocks.
    pub(super) fn free_bytes(&self) -> u64 {
        u64::from(self.free) * GRANULE
    }

    /// Bytes of its blocks that are handed out.
    pub(super) fn live_bytes(&self) -> u64 {
        u64::from(self.held - self.free) * GRANULE
    }

    /// A size that no free block is larger than.
    pub(super) fn bound(&self) -> u16 {
        self.bounds.iter().copied().fold(0, u16::max)
    }

    /// Hands out the front of the first free block that is large enough. Returns its place.
    pub(super) fn take(&mut self, size: u16) -> Option<u16> {
        let mut from = 0;
        loop {
            let group = from + first_fit(&self.bounds[from..], size)?;
            let ends = &self.ends[group * GROUP..][..GROUP];
            if let Some(end) = first_fit(ends, size) {
                return Some(self.take_from(group * GROUP + end, size));
            }
            self.bounds[group] = ends.iter().copied().fold(0, u16::max);
            from = group + 1;
        }
    }

    fn take_from(&mut self, end: usize, size: u16) -> u16 {
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

    /// Makes the block at a place, which is handed out, end after `size` granules; the rest is
    /// free.
    pub(super) fn cut_back(&mut self, at: u16, size: u16) {
        if let Some(whole) = self.live_size(at)
            && size > 0
            && size < whole
        {
            self.starts[usize::from(at)] = size | LIVE;
            self.starts[usize::from(at + size)] = (whole - size) | LIVE;
            self.give(at + size);
        }
    }

    /// Makes the block at a place, which is handed out, begin `by` granules later; what is before
    /// that is free. Returns its new place.
    pub(super) fn cut_front(&mut self, at: u16, by: u16) -> u16 {
        match self.live_size(at) {
            Some(whole) if by > 0 && by < whole => {
                self.starts[usize::from(at)] = by | LIVE;
                self.starts[usize::from(at + by)] = (whole - by) | LIVE;
                self.give(at);
                at + by
            }
            _ => at,
        }
    }

    /// The size of the block that is handed out at a place.
    pub(super) fn live_size(&self, at: u16) -> Option<u16> {
        let tag = *self.starts.get(usize::from(at))?;
        (tag & LIVE != 0).then_some(tag & !LIVE)
    }

    /// Takes a block back and merges it with its free neighbours. Returns its size and that of the
    /// free block that it is part of now; `None` if no block is handed out at that place.
    pub(super) fn give(&mut self, at: u16) -> Option<(u16, u16)> {
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

    /// Gives a block up that is handed out: its granules are no part of the superblock any more.
    /// Returns its size.
    pub(super) fn transfer_to_global(&mut self, at: u16) -> Option<u16> {
        let size = self.live_size(at)?;
        self.starts[usize::from(at)] = 0;
        self.held -= size;
        Some(size)
    }

    /// The blocks that start in this range, with their places, in their order.
    pub(super) fn parts(&self, from: u16, to: u16) -> impl Iterator<Item = (u16, Slice)> + '_ {
        let tagged = self.starts.iter().enumerate().take(usize::from(to)).skip(usize::from(from));
        tagged.filter(|&(_, &tag)| tag != 0).map(|(start, &tag)| {
            let part = Slice { bytes: u64::from(tag & !LIVE) * GRANULE, is_live: tag & LIVE != 0 };
            (place(start), part)
        })
    }
}

/// A place as it is stored.
fn place(start: usize) -> u16 {
    u16::try_from(start).unwrap_or(GRANULES)
}
