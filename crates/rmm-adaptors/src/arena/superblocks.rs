//! The superblocks of one arena, by address.

#![forbid(unsafe_code)]

use super::first_fit::first_fit;
use super::superblock::{GRANULE, SUPERBLOCK, Superblock};
use crate::pool::Slice;

/// The result of a free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FreeOutcome {
    /// The block is free.
    Done,
    /// The block is free. No block of the superblock with this base is live, and the superblock
    /// should be returned.
    SuperblockIdle(u64),
    /// No live block has this address.
    Unknown,
}

/// One in this many superblocks may be empty and kept, and at least one.
const KEEP_ONE_OF: usize = 4;
/// The most superblock tables that are kept for reuse.
const SPARE: usize = 16;

/// Superblocks, searched in the order of their addresses (first fit).
#[derive(Debug, Default)]
pub(super) struct Superblocks {
    /// The start of each, ascending.
    bases: Vec<u64>,
    /// For each, an upper bound on the granules of its free blocks.
    bounds: Vec<u16>,
    blocks: Vec<Superblock>,
    /// The number of empty superblocks. Some are kept, so that a program that frees and allocates
    /// in turn does not move a superblock back and forth.
    empty: usize,
    /// Tables of empty superblocks that were returned, for reuse.
    spare: Vec<Superblock>,
    live_bytes: u64,
}

impl Superblocks {
    /// The number of superblocks.
    pub(super) fn len(&self) -> usize {
        self.bases.len()
    }

    /// Bytes of live blocks.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Bytes of free blocks.
    pub(super) fn free_bytes(&self) -> u64 {
        self.blocks.iter().map(Superblock::free_bytes).sum()
    }

    /// Adds a superblock, which is one free block.
    pub(super) fn add(&mut self, base: u64) {
        let index = self.bases.partition_point(|&known| known < base);
        let block = self.spare.pop().unwrap_or_else(Superblock::new);
        self.bases.insert(index, base);
        self.bounds.insert(index, block.bound());
        self.blocks.insert(index, block);
        self.empty += 1;
    }

    /// Removes a superblock and returns its table.
    pub(super) fn remove(&mut self, base: u64) -> Option<Superblock> {
        let index = self.bases.binary_search(&base).ok()?;
        self.bases.remove(index);
        self.bounds.remove(index);
        let block = self.blocks.remove(index);
        self.empty -= usize::from(block.is_empty());
        self.live_bytes -= block.live_bytes();
        Some(block)
    }

    /// Keeps the table of an empty superblock for reuse.
    pub(super) fn recycle(&mut self, block: Superblock) {
        if block.is_empty() && self.spare.len() < SPARE {
            self.spare.push(block);
        }
    }

    /// Allocates `granules` at the lowest address where they fit, aligned to `alignment` bytes;
    /// `slack` of the granules are padding for the alignment.
    #[inline]
    pub(super) fn allocate(&mut self, granules: u16, slack: u16, alignment: u64) -> Option<u64> {
        let mut from = 0;
        loop {
            let index = from + first_fit(&self.bounds[from..], granules)?;
            let (block, base) = (&mut self.blocks[index], self.bases[index]);
            let was_empty = block.is_empty();
            if let Some(mut at) = block.allocate(granules) {
                self.empty -= usize::from(was_empty);
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

    /// Finds the live block at an address. Its superblock is not always the last one that starts
    /// before the address: another may start in a part that was transferred to the global arena.
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

    /// Frees a block.
    #[inline]
    pub(super) fn free(&mut self, address: u64) -> FreeOutcome {
        let Some((index, at)) = self.find(address) else { return FreeOutcome::Unknown };
        let block = &mut self.blocks[index];
        let Some((size, whole)) = block.free(at) else { return FreeOutcome::Unknown };
        self.live_bytes -= u64::from(size) * GRANULE;
        self.bounds[index] = whole.max(self.bounds[index]);
        if block.is_idle() { self.keep_or_return(index) } else { FreeOutcome::Done }
    }

    /// Frees a block after a call of `freed`, unless its superblock should be returned then.
    /// Returns whether it did; nothing changes otherwise, and `freed` is not called.
    #[inline]
    pub(super) fn free_in_place(&mut self, address: u64, freed: impl FnOnce()) -> bool {
        let Some((index, at)) = self.find(address) else { return false };
        let block = &self.blocks[index];
        let is_last = block.live_size(at).map(u64::from) == Some(block.live_bytes() / GRANULE);
        let is_kept = || block.is_whole() && self.empty < self.most_empty();
        if is_last && !is_kept() {
            return false;
        }
        freed();
        self.free(address) == FreeOutcome::Done
    }

    /// The most empty superblocks that are kept.
    fn most_empty(&self) -> usize {
        (self.bases.len() / KEEP_ONE_OF).max(1)
    }

    /// Decides whether a superblock that has become idle is kept or returned.
    fn keep_or_return(&mut self, index: usize) -> FreeOutcome {
        let is_empty = self.blocks[index].is_empty();
        self.empty += usize::from(is_empty);
        if is_empty && self.empty <= self.most_empty() {
            FreeOutcome::Done
        } else {
            FreeOutcome::SuperblockIdle(self.bases[index])
        }
    }

    /// Removes a live block from the arena: its memory then belongs to the global arena. Returns
    /// its bytes, or `None` if there is no such block.
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

    /// The bases of idle superblocks.
    pub(super) fn idle(&self) -> Vec<u64> {
        let idle = self.bases.iter().zip(&self.blocks).filter(|(_, block)| block.is_idle());
        idle.map(|(&base, _)| base).collect()
    }

    /// The bases of all superblocks.
    pub(super) fn bases(&self) -> Vec<u64> {
        self.bases.clone()
    }

    /// All blocks by address, each with its start.
    pub(super) fn slices(&self) -> impl Iterator<Item = (u64, Slice)> + '_ {
        self.bases.iter().zip(&self.blocks).flat_map(|(&base, block)| {
            let parts = block.slices(0, u16::MAX);
            parts.map(move |(at, part)| (base + u64::from(at) * GRANULE, part))
        })
    }
}

/// Frees the padding before and after an aligned block. Returns the block's start and size.
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
    let at = block.trim_front(at, by);
    let size = granules - slack;
    block.trim_back(at, size);
    (at, size)
}
