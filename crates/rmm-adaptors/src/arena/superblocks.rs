//! The superblocks of one arena, by address.

#![forbid(unsafe_code)]

use super::fit::first_fit;
use super::superblock::{GRANULE, SUPERBLOCK, Superblock};
use crate::pool::Slice;

/// What a free has led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Given {
    /// The block is free.
    Kept,
    /// The block is free, and nothing of the superblock with this base is in use, which is not
    /// worth keeping.
    Idle(u64),
    /// There is no such block here.
    Unknown,
}

/// One of this many superblocks may be as new and kept; of fewer, one.
const KEEP_ONE_OF: usize = 4;
/// Books that are kept to be used again.
const SPARE: usize = 16;

/// Superblocks, which are searched in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Superblocks {
    /// Where each starts, ascending.
    bases: Vec<u64>,
    /// For each: no free block in it has more granules.
    bounds: Vec<u16>,
    blocks: Vec<Superblock>,
    /// How many are as new. Some are kept, so that a program that frees what it will soon want
    /// again need not ask for another.
    new: usize,
    /// Books of superblocks that were as new when they went, to be used again.
    spare: Vec<Superblock>,
    live_bytes: u64,
}

impl Superblocks {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.bases.len()
    }

    /// Bytes handed out.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Bytes that are free.
    pub(super) fn free_bytes(&self) -> u64 {
        self.blocks.iter().map(Superblock::free_bytes).sum()
    }

    /// Adds a superblock: one free block.
    pub(super) fn add(&mut self, base: u64) {
        let index = self.bases.partition_point(|&known| known < base);
        let block = self.spare.pop().unwrap_or_else(Superblock::new);
        self.bases.insert(index, base);
        self.bounds.insert(index, block.bound());
        self.blocks.insert(index, block);
        self.new += 1;
    }

    /// Removes a superblock and returns its books.
    pub(super) fn remove(&mut self, base: u64) -> Option<Superblock> {
        let index = self.bases.binary_search(&base).ok()?;
        self.bases.remove(index);
        self.bounds.remove(index);
        let block = self.blocks.remove(index);
        self.new -= usize::from(block.is_new());
        self.live_bytes -= block.live_bytes();
        Some(block)
    }

    /// Keeps the books of a superblock for the next, if they are as those of a new one.
    pub(super) fn recycle(&mut self, block: Superblock) {
        if block.is_new() && self.spare.len() < SPARE {
            self.spare.push(block);
        }
    }

    /// Hands out `granules` at the lowest address where they fit, aligned to `alignment` bytes, for
    /// which `slack` of the granules are there.
    #[inline]
    pub(super) fn take(&mut self, granules: u16, slack: u16, alignment: u64) -> Option<u64> {
        let mut from = 0;
        loop {
            let index = from + first_fit(&self.bounds[from..], granules)?;
            let (block, base) = (&mut self.blocks[index], self.bases[index]);
            let was_new = block.is_new();
            if let Some(mut at) = block.take(granules) {
                self.new -= usize::from(was_new);
                let mut size = granules;
                if slack > 0 {
                    (at, size) = align(block, base, at, granules, slack, alignment);
                }
                self.live_bytes += u64::from(size) * GRANULE;
                return Some(base + u64::from(at) * GRANULE);
            }
            self.bounds[index] = block.bound();
            from = index + 1;
        }
    }

    /// The superblock of the block that is handed out at an address, and the place there. It is not
    /// always the last that begins before: one may lie where others have parted with blocks.
    #[inline]
    fn find(&self, address: u64) -> Option<(usize, u16)> {
        let mut index = self.bases.partition_point(|&base| base <= address);
        loop {
            index = index.checked_sub(1)?;
            let offset = address - self.bases[index];
            if offset >= SUPERBLOCK || !offset.is_multiple_of(GRANULE) {
                return None;
            }
            let at = u16::try_from(offset / GRANULE).ok()?;
            if self.blocks[index].live_size(at).is_some() {
                return Some((index, at));
            }
        }
    }

    /// Takes a block back.
    #[inline]
    pub(super) fn give(&mut self, address: u64) -> Given {
        let Some((index, at)) = self.find(address) else { return Given::Unknown };
        let block = &mut self.blocks[index];
        let Some((size, whole)) = block.give(at) else { return Given::Unknown };
        self.live_bytes -= u64::from(size) * GRANULE;
        self.bounds[index] = whole.max(self.bounds[index]);
        if block.is_idle() { self.keep_or_drop(index) } else { Given::Kept }
    }

    /// Whether to part with a superblock, now that it is idle.
    fn keep_or_drop(&mut self, index: usize) -> Given {
        let is_new = self.blocks[index].is_new();
        self.new += usize::from(is_new);
        if is_new && self.new <= (self.bases.len() / KEEP_ONE_OF).max(1) {
            Given::Kept
        } else {
            Given::Idle(self.bases[index])
        }
    }

    /// Gives a block up: its memory is no part of the arena any more. Returns its bytes, or `None`
    /// if there is no such block.
    pub(super) fn transfer_to_global(&mut self, address: u64) -> Option<u64> {
        let (index, at) = self.find(address)?;
        let block = &mut self.blocks[index];
        let bytes = u64::from(block.transfer_to_global(at)?) * GRANULE;
        self.live_bytes -= bytes;
        if block.is_gone() {
            // Its memory may become another superblock with the same base.
            self.remove(self.bases[index]);
        }
        Some(bytes)
    }

    /// The bases of the superblocks of which nothing is handed out.
    pub(super) fn idle(&self) -> Vec<u64> {
        let idle = self.bases.iter().zip(&self.blocks).filter(|(_, block)| block.is_idle());
        idle.map(|(&base, _)| base).collect()
    }

    /// The bases of all.
    pub(super) fn bases(&self) -> Vec<u64> {
        self.bases.clone()
    }

    /// All blocks by address: where each starts, and what it is.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, Slice)> + '_ {
        self.bases.iter().zip(&self.blocks).flat_map(|(&base, block)| {
            let parts = block.parts(0, u16::MAX);
            parts.map(move |(at, part)| (base + u64::from(at) * GRANULE, part))
        })
    }
}

/// Frees what alignment leaves over of a block. Returns where it starts then, and its size.
#[cold]
fn align(
    block: &mut Superblock,
    base: u64,
    at: u16,
    granules: u16,
    slack: u16,
    alignment: u64,
) -> (u16, u16) {
    let address = base + u64::from(at) * GRANULE;
    let by = (address.next_multiple_of(alignment) - address) / GRANULE;
    let by = u16::try_from(by).expect("at most the slack, which is the alignment less a granule");
    let at = block.cut_front(at, by);
    let size = granules - slack;
    block.cut_back(at, size);
    (at, size)
}
