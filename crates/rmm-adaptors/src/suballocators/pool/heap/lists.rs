//! Free lists: the free blocks of one stream, or the idle blocks, segregated by size.

#![forbid(unsafe_code)]

use std::ops::{Index, IndexMut};

use super::free_list::{Bins, FreeList};
use super::nodes::{NodeId, Nodes};
use super::zones::{Tier, Zone};
use crate::suballocators::pool::values::units::{ListId, Point};

#[cfg(test)]
mod tests;

/// How many blocks of a bin a search examines for a good fit. Four come within 1 % of an exact best
/// fit on recorded programs.
const LOOK_AT: usize = 4;
/// The same where space counts more than time.
const LOOK_CLOSER_AT: usize = 16;

/// The free blocks of one stream, or the idle blocks, of both zones.
#[derive(Debug)]
pub(super) struct StreamLists {
    large: FreeList,
    /// Free parts of slabs; created with the first one.
    small: Option<Box<FreeList>>,
    /// Whether [`Lists`] has it among the occupied ones.
    is_listed: bool,
}

/// All free lists, by number, and which of them hold blocks.
#[derive(Debug)]
pub(super) struct Lists {
    /// Index: [`ListId`]. The first is the idle list.
    all: Vec<StreamLists>,
    /// The lists that hold blocks, so that a search skips the others. A list that has become empty
    /// stays until the next pass.
    ///
    /// # Invariant
    /// `is_listed <=>` the list is in here, once. A list that holds blocks is listed, except for
    /// the idle list, which never is.
    occupied: Vec<ListId>,
    /// The position in `occupied` where a pass begins.
    ///
    /// # Invariant
    /// `first == 0`, or it is less than the length.
    first: usize,
    /// How many blocks of a bin a search of a new list examines.
    look_at: usize,
}

impl Lists {
    /// The idle list alone.
    pub(super) fn new() -> Self {
        Self {
            all: vec![StreamLists::new(LOOK_AT)],
            occupied: Vec::new(),
            first: 0,
            look_at: LOOK_AT,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds an empty list.
    pub(super) fn add(&mut self) -> ListId {
        self.all.push(StreamLists::new(self.look_at));
        let index = u32::try_from(self.all.len() - 1);
        ListId(index.expect("a program has fewer than 2^32 streams at a time"))
    }

    /// Examines more blocks from now on.
    pub(super) fn look_closer(&mut self) {
        self.look_at = LOOK_CLOSER_AT;
        self.all.iter_mut().for_each(StreamLists::look_closer);
    }

    /// Puts a free block into a list.
    pub(super) fn insert(&mut self, list: ListId, nodes: &mut Nodes, id: NodeId) {
        let its = &mut self.all[list.index()];
        if !its.is_listed && list != ListId::ANY_STREAM {
            its.is_listed = true;
            self.occupied.push(list);
        }
        its.insert(nodes, id);
    }

    /// The lists that hold blocks, without the idle one.
    pub(super) fn occupied(&self) -> impl Iterator<Item = ListId> + '_ {
        self.occupied.iter().copied().filter(|list| !self.all[list.index()].is_empty())
    }

    /// The idle list, and the other lists that hold blocks.
    pub(super) fn with_blocks(&self) -> impl Iterator<Item = (ListId, &StreamLists)> + '_ {
        let lists = std::iter::once(ListId::ANY_STREAM).chain(self.occupied());
        lists.map(|list| (list, &self.all[list.index()]))
    }

    /// Makes the next pass begin with the list at this position of the last one.
    pub(super) fn begin_with(&mut self, position: usize) {
        self.first = (self.first + position) % self.occupied.len().max(1);
    }

    /// The first list that holds blocks from position `next` on, which is advanced behind it. A
    /// pass over all of them takes amortised O(lists that hold blocks).
    pub(super) fn next_occupied(&mut self, next: &mut usize) -> Option<ListId> {
        while *next < self.occupied.len() {
            let position = self.first + *next;
            let wrapped = position.checked_sub(self.occupied.len());
            let list = self.occupied[wrapped.unwrap_or(position)];
            let its = &mut self.all[list.index()];
            if !its.is_empty() {
                *next += 1;
                return Some(list);
            }
            its.is_listed = false;
            if let Some(position) = wrapped {
                // Those before `first` are still to come, those from there on have been passed. One
                // of the former takes the place of the list, and one of the latter takes its.
                self.first -= 1;
                self.occupied.swap(position, self.first);
                self.occupied.swap_remove(self.first);
            } else {
                // The last one, which is still to come, takes its place.
                self.occupied.swap_remove(position);
                self.first = if self.first < self.occupied.len() { self.first } else { 0 };
            }
        }
        None
    }

    /// Bytes of the largest free block.
    pub(super) fn largest(&self, nodes: &Nodes) -> u64 {
        let lists = self.occupied().chain([ListId::ANY_STREAM]);
        lists.map(|list| self[list.index()].largest(nodes)).max().unwrap_or(0)
    }

    /// Keeps the first `count` lists, behind which all are empty, and frees host memory that they
    /// do not need now.
    pub(super) fn shrink_to(&mut self, count: usize) {
        let mut next = 0;
        while self.next_occupied(&mut next).is_some() {}
        debug_assert!(
            self.occupied.iter().all(|list| list.index() < count),
            "blocks would be lost"
        );
        self.all.truncate(count);
        self.all.iter_mut().filter(|list| list.is_empty()).for_each(StreamLists::shrink);
        self.all.shrink_to_fit();
        self.occupied.shrink_to_fit();
    }

    /// Host bytes of the lists and their bins.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        let own = self.all.iter().map(StreamLists::bookkeeping_bytes).sum::<usize>();
        let lists = self.all.capacity() * size_of::<StreamLists>();
        let occupied = self.occupied.capacity() * size_of::<ListId>();
        (lists + occupied + own) as u64
    }
}

impl Index<usize> for Lists {
    type Output = StreamLists;

    #[inline]
    fn index(&self, number: usize) -> &StreamLists {
        &self.all[number]
    }
}

impl IndexMut<usize> for Lists {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut StreamLists {
        &mut self.all[number]
    }
}

impl StreamLists {
    fn new(look_at: usize) -> Self {
        Self { large: FreeList::new(look_at), small: None, is_listed: false }
    }

    fn look_closer(&mut self) {
        self.large.look_at = LOOK_CLOSER_AT;
        self.small.iter_mut().for_each(|small| small.look_at = LOOK_CLOSER_AT);
    }

    /// Frees host memory that an empty list does not need.
    fn shrink(&mut self) {
        (self.large.bins, self.small) = (None, None);
    }

    fn bookkeeping_bytes(&self) -> usize {
        let of_bins = |list: &FreeList| if list.bins.is_some() { size_of::<Bins>() } else { 0 };
        let small = self.small.as_deref();
        of_bins(&self.large) + small.map_or(0, |small| size_of::<FreeList>() + of_bins(small))
    }

    /// The list of a zone, if there is one.
    #[inline]
    fn of_zone(&self, zone: Zone) -> Option<&FreeList> {
        match zone {
            Zone::Large => Some(&self.large),
            Zone::Small => self.small.as_deref(),
        }
    }

    /// The list that a block belongs into.
    #[inline]
    fn of(&mut self, nodes: &Nodes, id: NodeId) -> &mut FreeList {
        match nodes.get(id).zone {
            Zone::Large => &mut self.large,
            Zone::Small => {
                let look_at = self.large.look_at;
                self.small.get_or_insert_with(|| Box::new(FreeList::new(look_at)))
            }
        }
    }

    /// Both lists, that of small blocks first.
    fn both(&self) -> impl Iterator<Item = &FreeList> {
        self.small.as_deref().into_iter().chain([&self.large])
    }

    /// Blocks of a zone of at least `size` bytes, and a few that are slightly smaller.
    pub(super) fn iter_zone_from<'a>(
        &'a self,
        nodes: &'a Nodes,
        zone: Zone,
        size: u64,
    ) -> impl Iterator<Item = NodeId> + 'a {
        self.of_zone(zone).into_iter().flat_map(move |list| list.iter_from(nodes, size))
    }

    /// Bytes of all blocks together.
    pub(super) fn bytes(&self) -> u64 {
        self.both().map(|list| list.bytes).sum()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.both().all(|list| list.blocks == 0)
    }

    /// Lower bound on the points of all blocks.
    #[inline]
    pub(super) fn oldest(&self) -> Point {
        self.small.as_ref().map_or(Point::MAX, |small| small.oldest).min(self.large.oldest)
    }

    /// Sets the lower bound on the points of all blocks.
    pub(super) fn note_oldest(&mut self, oldest: Point) {
        self.large.oldest = oldest;
        self.small.iter_mut().for_each(|small| small.oldest = oldest);
    }

    /// Upper bound on the bytes of every block.
    pub(super) fn largest_bound(&self) -> u64 {
        self.both().map(FreeList::largest_bound).max().unwrap_or(0)
    }

    fn insert(&mut self, nodes: &mut Nodes, id: NodeId) {
        self.of(nodes, id).insert(nodes, id);
    }

    pub(super) fn remove(&mut self, nodes: &mut Nodes, id: NodeId) {
        self.of(nodes, id).remove(nodes, id);
    }

    /// Changes the size of a block in its list. Within its bin, the block keeps its position.
    pub(super) fn resize(&mut self, nodes: &mut Nodes, id: NodeId, size: u64) {
        self.of(nodes, id).resize(nodes, id, size);
    }

    /// Finds the smallest block of at least `size` bytes of a tier's zone that `usable` accepts: in
    /// bins among the first few of each, in at most `bins` non-empty ones.
    #[inline]
    pub(super) fn find(
        &self,
        nodes: &Nodes,
        tier: Tier,
        size: u64,
        bins: usize,
        usable: impl Fn(Point) -> bool,
    ) -> Option<NodeId> {
        self.of_zone(tier.zone())?.find(nodes, size, bins, usable)
    }

    /// The smallest block of at least `size` bytes that `usable` accepts. O(blocks of that size or
    /// more).
    pub(super) fn find_smallest(
        &self,
        nodes: &Nodes,
        size: u64,
        usable: impl Fn(Point) -> bool,
    ) -> Option<NodeId> {
        let found = self.both().filter_map(|list| list.find_smallest(nodes, size, &usable));
        found.min_by_key(|&id| nodes.get(id).size)
    }

    /// All blocks, the smallest bins of each zone first.
    pub(super) fn iter<'a>(&'a self, nodes: &'a Nodes) -> impl Iterator<Item = NodeId> + 'a {
        self.iter_from(nodes, 0)
    }

    /// All blocks of at least `size` bytes, and a few that are slightly smaller.
    pub(super) fn iter_from<'a>(
        &'a self,
        nodes: &'a Nodes,
        size: u64,
    ) -> impl Iterator<Item = NodeId> + 'a {
        self.both().flat_map(move |list| list.iter_from(nodes, size))
    }

    /// The largest block's bytes.
    fn largest(&self, nodes: &Nodes) -> u64 {
        self.both().map(|list| list.largest(nodes)).max().unwrap_or(0)
    }
}
