//! A free list: free blocks segregated by size.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::cmp::Ordering;

use super::bins::{Bin, BinMap};
use super::few::{FEW, FewBlocks};
use super::nodes::{NodeId, Nodes};
use crate::suballocators::pool::values::units::Point;

/// The bins of a free list, each a doubly linked list.
#[derive(Debug)]
pub(super) struct Bins {
    map: BinMap,
    heads: [Option<NodeId>; BinMap::BINS],
}

/// Free blocks by size: a few in an array, more in bins.
///
/// # Invariant
/// All blocks are in the bins if `is_binned`, else all are in `few`.
#[derive(Debug)]
#[repr(C)]
pub(super) struct FreeList {
    few: FewBlocks,
    /// Created when the blocks are too many for the array, since bins take kilobytes.
    pub(super) bins: Option<Box<Bins>>,
    pub(super) bytes: u64,
    pub(super) blocks: usize,
    /// Lower bound on the points of all blocks.
    pub(super) oldest: Point,
    largest: Cell<Largest>,
    /// How many blocks of a bin a search examines.
    pub(super) look_at: usize,
    is_binned: bool,
}

/// So few blocks come back from the bins into the array: a quarter of what it holds, so that a list
/// does not move to and fro.
const FEW_AGAIN: usize = FEW / 4;

/// A cached upper bound on the largest block.
#[derive(Clone, Copy, Debug)]
struct Largest {
    /// Upper bound on the bytes of every block.
    size: u64,
    /// Blocks of exactly that size; 0 if the bound is stale.
    count: usize,
}

impl Largest {
    const NONE: Self = Self { size: 0, count: 0 };

    /// A block of this size was added.
    #[inline]
    fn add(&mut self, size: u64) {
        if size >= self.size {
            let count = if size == self.size { self.count + 1 } else { 1 };
            *self = Self { size, count };
        }
    }

    /// A block of this size was removed.
    #[inline]
    fn remove(&mut self, size: u64) {
        if size == self.size {
            self.count -= 1;
        }
    }
}

impl Bins {
    fn new() -> Box<Self> {
        Box::new(Self { map: BinMap::new(), heads: [None; BinMap::BINS] })
    }

    /// The bins that hold blocks, from one on.
    fn from(&self, bin: Bin) -> impl Iterator<Item = Bin> + '_ {
        let next = |&bin: &Bin| BinMap::next(bin).and_then(|bin| self.map.at_or_above(bin));
        std::iter::successors(self.map.at_or_above(bin), next)
    }

    #[expect(
        clippy::inline_always,
        reason = "a move from bin to bin is one with both, in a call that most requests make"
    )]
    #[inline(always)]
    fn insert(&mut self, nodes: &mut Nodes, bin: Bin, id: NodeId) {
        let head = self.heads[bin.index()].replace(id);
        let node = nodes.get_mut(id);
        node.previous = None;
        node.next = head;
        match head {
            Some(head) => nodes.get_mut(head).previous = Some(id),
            None => self.map.set(bin),
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "a move from bin to bin is one with both, in a call that most requests make"
    )]
    #[inline(always)]
    fn remove(&mut self, nodes: &mut Nodes, bin: Bin, id: NodeId) {
        let node = nodes.get_mut(id);
        let (previous, next) = (node.previous, node.next);
        (node.previous, node.next) = (None, None);
        if let Some(next) = next {
            nodes.get_mut(next).previous = previous;
        }
        if let Some(previous) = previous {
            nodes.get_mut(previous).next = next;
        } else {
            self.heads[bin.index()] = next;
            if next.is_none() {
                self.map.clear(bin);
            }
        }
    }

    /// A block of the lowest bin that is not empty.
    fn first(&self) -> Option<NodeId> {
        self.heads[self.map.at_or_above(Bin::of(0))?.index()]
    }

    fn iter<'a>(&self, nodes: &'a Nodes, bin: Bin) -> impl Iterator<Item = NodeId> + 'a {
        std::iter::successors(self.heads[bin.index()], |&id| nodes.get(id).next)
    }
}

impl FreeList {
    pub(super) fn new(look_at: usize) -> Self {
        let largest = Cell::new(Largest::NONE);
        Self {
            few: FewBlocks::new(),
            bins: None,
            bytes: 0,
            blocks: 0,
            oldest: Point::MAX,
            largest,
            look_at,
            is_binned: false,
        }
    }

    pub(super) fn insert(&mut self, nodes: &mut Nodes, id: NodeId) {
        let node = nodes.get(id);
        let (size, point) = (node.size, node.point());
        if self.is_binned || !self.few.push(self.blocks, id, size) {
            self.insert_into_bins(nodes, id, size);
        }
        self.oldest = self.oldest.min(point);
        self.largest.get_mut().add(size);
        self.bytes += size;
        self.blocks += 1;
    }

    /// Upper bound on the bytes of every block.
    pub(super) fn largest_bound(&self) -> u64 {
        self.largest.get().size
    }

    /// Adds a block to the bins, to which those of the array move.
    fn insert_into_bins(&mut self, nodes: &mut Nodes, id: NodeId, size: u64) {
        self.move_to_bins(nodes);
        self.bins_of_blocks().insert(nodes, Bin::of(size), id);
    }

    #[cold]
    fn fill_bins(&mut self, nodes: &mut Nodes) {
        let bins = self.bins.get_or_insert_with(Bins::new);
        for id in self.few.iter() {
            let size = nodes.get(id).size;
            bins.insert(nodes, Bin::of(size), id);
        }
        self.few = FewBlocks::new();
        self.is_binned = true;
    }

    fn move_to_bins(&mut self, nodes: &mut Nodes) {
        if !self.is_binned {
            self.fill_bins(nodes);
        }
    }

    /// Moves the blocks from the bins to the array, in which there is room.
    #[cold]
    fn move_to_array(&mut self, nodes: &mut Nodes) {
        let mut moved = 0;
        while let Some(id) = self.bins.as_deref().and_then(Bins::first) {
            let size = nodes.get(id).size;
            if !self.few.push(moved, id, size) {
                break;
            }
            self.bins_of_blocks().remove(nodes, Bin::of(size), id);
            moved += 1;
        }
        self.is_binned = false;
        if moved < self.blocks {
            // A block is too large for the array.
            self.fill_bins(nodes);
        }
    }

    pub(super) fn remove(&mut self, nodes: &mut Nodes, id: NodeId) {
        let size = nodes.get(id).size;
        if self.is_binned {
            self.bins_of_blocks().remove(nodes, Bin::of(size), id);
        } else {
            self.few.remove(self.blocks, id);
        }
        self.bytes -= size;
        self.blocks -= 1;
        if self.blocks == 0 {
            self.oldest = Point::MAX;
            self.largest.set(Largest::NONE);
        } else {
            self.largest.get_mut().remove(size);
        }
        if self.is_binned && self.blocks <= FEW_AGAIN {
            self.move_to_array(nodes);
        }
    }

    /// Changes the size of a block in the list. Within its bin, the block keeps its position.
    pub(super) fn resize(&mut self, nodes: &mut Nodes, id: NodeId, size: u64) {
        let known = nodes.get(id).size;
        if !self.is_binned && !self.few.resize(self.blocks, id, size) {
            self.fill_bins(nodes);
        }
        if self.is_binned {
            let (from, to) = (Bin::of(known), Bin::of(size));
            if from != to {
                let bins = self.bins_of_blocks();
                bins.remove(nodes, from, id);
                bins.insert(nodes, to, id);
            }
        }
        nodes.get_mut(id).size = size;
        self.bytes = self.bytes - known + size;
        let largest = self.largest.get_mut();
        largest.remove(known);
        largest.add(size);
    }

    fn bins_of_blocks(&mut self) -> &mut Bins {
        self.bins.as_mut().expect("a list that is binned has bins")
    }

    /// The bins, if the blocks are in them.
    #[inline]
    fn bins_in_use(&self) -> Option<&Bins> {
        self.bins.as_deref().filter(|_| self.is_binned)
    }

    /// Finds the smallest block of at least `size` bytes that `usable` accepts: in bins among the
    /// first few of each, in at most `bins` non-empty ones.
    #[inline]
    pub(super) fn find(
        &self,
        nodes: &Nodes,
        size: u64,
        bins: usize,
        usable: impl Fn(Point) -> bool,
    ) -> Option<NodeId> {
        let Some(all) = self.bins_in_use() else {
            return self.few.find(self.blocks, size, |id| usable(nodes.get(id).point()));
        };
        let mut from = Bin::of(size);
        for _ in 0..bins {
            let bin = all.map.at_or_above(from)?;
            let (mut best, mut best_size) = (None, u64::MAX);
            let mut next = all.heads[bin.index()];
            for _ in 0..self.look_at {
                let Some(id) = next else { break };
                let node = nodes.get(id);
                let its_size = node.size;
                if its_size >= size && its_size < best_size && usable(node.point()) {
                    (best, best_size) = (next, its_size);
                }
                next = node.next;
            }
            if best.is_some() {
                return best;
            }
            from = BinMap::next(bin)?;
        }
        None
    }

    /// The smallest block of at least `size` bytes that `usable` accepts. O(blocks of that size or
    /// more).
    pub(super) fn find_smallest(
        &self,
        nodes: &Nodes,
        size: u64,
        usable: impl Fn(Point) -> bool,
    ) -> Option<NodeId> {
        if size > self.largest.get().size {
            return None;
        }
        let Some(bins) = self.bins_in_use() else {
            return self.few.find(self.blocks, size, |id| usable(nodes.get(id).point()));
        };
        bins.from(Bin::of(size)).find_map(|bin| {
            let mut best: Option<(u64, NodeId)> = None;
            for id in bins.iter(nodes, bin) {
                let node = nodes.get(id);
                let better = size..best.map_or(u64::MAX, |(known, _)| known);
                if better.contains(&{ node.size }) && usable(node.point()) {
                    best = Some((node.size, id));
                    if node.size == size {
                        break;
                    }
                }
            }
            best.map(|(_, id)| id)
        })
    }

    /// All blocks of at least `size` bytes, and a few that are slightly smaller.
    pub(super) fn iter_from<'a>(
        &'a self,
        nodes: &'a Nodes,
        size: u64,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let few = self.few.iter().filter(move |&id| nodes.get(id).size >= size);
        let bins = self.bins_in_use().into_iter();
        let binned = bins
            .flat_map(move |bins| bins.from(Bin::of(size)).flat_map(|bin| bins.iter(nodes, bin)));
        few.chain(binned)
    }

    /// The largest block's bytes. O(1), or O(blocks of the highest bin) once after the largest
    /// block was removed.
    pub(super) fn largest(&self, nodes: &Nodes) -> u64 {
        let known = self.largest.get();
        if known.count > 0 {
            return known.size;
        }
        let highest = self.bins_in_use().and_then(|bins| Some((bins, bins.map.highest()?)));
        let binned = highest.into_iter().flat_map(|(bins, bin)| bins.iter(nodes, bin));
        let mut largest = Largest::NONE;
        for size in self.few.iter().chain(binned).map(|id| nodes.get(id).size) {
            match size.cmp(&largest.size) {
                Ordering::Less => {}
                Ordering::Equal => largest.count += 1,
                Ordering::Greater => largest = Largest { size, count: 1 },
            }
        }
        self.largest.set(largest);
        largest.size
    }
}
