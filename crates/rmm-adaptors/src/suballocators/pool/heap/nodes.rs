//! Blocks as records beside the memory: who the neighbours are, and which list a free block is in.

#![forbid(unsafe_code)]

use std::num::NonZeroU32;

use super::zones::Zone;
use crate::suballocators::pool::values::units::{ListId, Point};

/// A block's number in the arena, from 1: so that a record with its four links stays within a cache
/// line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeId(NonZeroU32);

impl NodeId {
    /// The number of the record at `index`.
    fn at(index: usize) -> Option<Self> {
        Some(Self(NonZeroU32::new(u32::try_from(index + 1).ok()?)?))
    }

    pub(super) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

const _: () = assert!(size_of::<Node>() <= 54);

/// A segment's number: one piece of memory from upstream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct SegmentId(pub(super) u32);

impl SegmentId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeState {
    Live,
    /// Unmapped.
    Gap,
    /// In no list: between two states, or reserved until all of its pages are mapped.
    Detached,
    /// In this list, freed at this point.
    Free(ListId, Point),
    /// The record describes no block; it is in the list of unused records.
    Unused,
}

/// A page at or before the first memory of a block that is [noted as idle](super::absorbed). `NONE`
/// of a live block.
///
/// It is kept modulo 255, and stands for the first such page from the block's start on. It must not
/// lie before that; if the block begins earlier than it did, it still is at or before the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IdleFrom(u8);

/// Most idle memory begins with a page of virtual memory. Smaller in tests, whose heaps are small.
const PAGE: u64 = if cfg!(test) { 1 << 12 } else { 2 << 20 };
const MODULUS: u64 = u8::MAX as u64;

impl IdleFrom {
    /// Nothing of the block is noted.
    pub(super) const NONE: Self = Self(u8::MAX);

    /// At this offset in the segment.
    pub(super) fn offset(offset: u64) -> Self {
        let page = offset / PAGE % MODULUS;
        Self(u8::try_from(page).expect("it is below 255"))
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Pages between that of the block's start and this one. More than all for `NONE`.
    fn distance(self, start: u64) -> u64 {
        if self.is_none() {
            return u64::MAX;
        }
        (u64::from(self.0) + MODULUS - start / PAGE % MODULUS) % MODULUS
    }

    /// Whether memory may be noted in the first `size` bytes of a block that starts at this offset.
    #[inline]
    pub(super) fn is_within(self, start: u64, size: u64) -> bool {
        !self.is_none() && (start / PAGE + self.distance(start)) * PAGE < start + size
    }

    /// The earlier of two places, in a block that starts at this offset.
    pub(super) fn earlier(self, other: Self, start: u64) -> Self {
        if other.distance(start) < self.distance(start) { other } else { self }
    }
}

/// The record of a block. Packed to 54 bytes, since there may be millions.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(2))]
pub(super) struct Node {
    pub(super) segment: SegmentId,
    /// Bytes from the segment's start.
    pub(super) offset: u64,
    /// Bytes; a multiple of the granule.
    pub(super) size: u64,
    pub(super) state: NodeState,
    pub(super) zone: Zone,
    pub(super) idle_from: IdleFrom,
    /// The neighbours in the segment (boundary tags).
    pub(super) before: Option<NodeId>,
    pub(super) after: Option<NodeId>,
    /// The neighbours in the bin's list, while free.
    pub(super) previous: Option<NodeId>,
    pub(super) next: Option<NodeId>,
}

/// All records. Freed records are reused, so a steady state makes no host allocation.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// The first [`FIRST`] records, contiguous.
    first: Vec<Node>,
    /// The other records, in chunks. None of them ever moves: to move a million takes longer than a
    /// call may.
    ///
    /// # Invariant
    /// Empty while `first` has room. All but the last have [`CHUNK`] records, and the last at least
    /// one.
    further: Vec<Vec<Node>>,
    /// The first unused record; each links to the next.
    unused: Option<NodeId>,
    /// See [`changes`](Self::changes).
    changes: u64,
}

/// Records that move when their number grows: few enough for a short call, and all that most
/// programs need.
const FIRST: usize = 1 << 14;
/// Records in each further chunk.
const CHUNK: usize = 1 << 12;
/// The first records grow by this fraction: doubling would waste more memory than it saves time.
const GROWTH: usize = 16;
/// Lower bound on that growth.
const LEAST_GROWTH: usize = 256;

impl Nodes {
    #[inline]
    pub(super) fn insert(&mut self, node: Node) -> NodeId {
        self.note_change();
        let Some(id) = self.unused else { return self.insert_new(node) };
        let unused = self.get_mut(id);
        let next = unused.next;
        *unused = node;
        self.unused = next;
        id
    }

    #[inline(never)]
    fn insert_new(&mut self, node: Node) -> NodeId {
        let id =
            NodeId::at(self.count()).expect("2^32 records are more than any host's memory holds");
        self.push(node);
        id
    }

    fn push(&mut self, node: Node) {
        if self.first.len() < FIRST {
            if self.first.len() == self.first.capacity() {
                let growth = (self.first.len() / GROWTH).max(LEAST_GROWTH);
                self.first.reserve_exact(growth.min(FIRST - self.first.len()));
            }
            self.first.push(node);
            return;
        }
        match self.further.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(node),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(node);
                self.further.push(chunk);
            }
        }
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        self.note_change();
        let next = self.unused.replace(id);
        let node = self.get_mut(id);
        node.state = NodeState::Unused;
        node.next = next;
    }

    /// Counts what changes which blocks there are, or which list one is in.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    #[inline]
    pub(super) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// How many records there are, used or not.
    pub(super) fn count(&self) -> usize {
        let last = self.further.last().map_or(0, Vec::len);
        self.first.len() + self.further.len().saturating_sub(1) * CHUNK + last
    }

    /// Host bytes of all records.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        let records = self.first.capacity() + self.further.len() * CHUNK;
        let chunks = self.further.capacity() * size_of::<Vec<Node>>();
        (records * size_of::<Node>() + chunks) as u64
    }

    /// Frees the host memory of unused records at the end.
    pub(super) fn shrink(&mut self) {
        let is_used = |node: &Node| !matches!(node.state, NodeState::Unused);
        let used_of = |nodes: &[Node]| nodes.iter().rposition(is_used).map_or(0, |last| last + 1);
        while let Some(last) = self.further.last_mut() {
            let used = used_of(last);
            last.truncate(used);
            if used > 0 {
                break;
            }
            self.further.pop();
        }
        if self.further.is_empty() {
            self.first.truncate(used_of(&self.first));
            self.first.shrink_to_fit();
        }
        self.further.shrink_to_fit();
        self.unused = None;
        for index in (0..self.count()).rev() {
            let id = NodeId::at(index).expect("it is the number of a record");
            if matches!(self.get(id).state, NodeState::Unused) {
                self.get_mut(id).next = self.unused.replace(id);
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, id: NodeId) -> &Node {
        let index = id.index();
        self.first.get(index).unwrap_or_else(|| self.further(index))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        let index = id.index();
        if index < self.first.len() {
            return &mut self.first[index];
        }
        self.further_mut(index)
    }

    /// A record that is not among the first. Out of line, so that most calls stay small.
    #[cold]
    #[inline(never)]
    fn further(&self, index: usize) -> &Node {
        let index = index - FIRST;
        &self.further[index / CHUNK][index % CHUNK]
    }

    /// A record that is not among the first, to change it. Out of line, so that most calls stay
    /// small.
    #[cold]
    #[inline(never)]
    fn further_mut(&mut self, index: usize) -> &mut Node {
        let index = index - FIRST;
        &mut self.further[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(offset: u64) -> Node {
        let (segment, state) = (SegmentId(0), NodeState::Live);
        let [before, after, previous, next] = [None; 4];
        let zone = Zone::Large;
        Node {
            segment,
            offset,
            size: 256,
            state,
            zone,
            idle_from: IdleFrom::NONE,
            before,
            after,
            previous,
            next,
        }
    }

    proptest! {
        /// Wherever a block begins, at or before its idle memory, that is not missed; and what lies
        /// in the pages before it is passed over, if they are fewer than the place counts to.
        #[test]
        fn idle_memory_is_not_missed(idle in 0..4096 * PAGE, before in 0..4096 * PAGE, other: u64) {
            let (place, start) = (IdleFrom::offset(idle), idle.saturating_sub(before));
            prop_assert!(place.is_within(start, idle + 1 - start));
            let pages = idle / PAGE - start / PAGE;
            // Of no pages there is nothing to pass over.
            if (1..MODULUS).contains(&pages) {
                prop_assert!(!place.is_within(start, idle / PAGE * PAGE - start.min(idle / PAGE * PAGE)));
            }
            prop_assert!(!IdleFrom::NONE.is_within(start, u64::MAX / 2));
            let other = start.saturating_add(other % (4096 * PAGE));
            for earlier in [
                place.earlier(IdleFrom::offset(other), start),
                IdleFrom::offset(other).earlier(place, start),
            ] {
                prop_assert!(earlier.is_within(start, idle.min(other) + 1 - start));
            }
            prop_assert_eq!(place.earlier(IdleFrom::NONE, start), place);
            prop_assert_eq!(IdleFrom::NONE.earlier(place, start), place);
        }
    }

    #[test]
    fn records_stay_what_they_are_while_others_come_and_go() {
        let mut nodes = Nodes::default();
        let count = FIRST + 2 * CHUNK + 5;
        let ids: Vec<NodeId> = (0..count as u64).map(|offset| nodes.insert(node(offset))).collect();
        assert_eq!(nodes.count(), count);
        for &id in &ids[10..count - 10] {
            nodes.remove(id);
        }
        nodes.shrink();
        assert_eq!(nodes.count(), count, "the last is used");
        for &id in &ids[count - 10..] {
            nodes.remove(id);
        }
        nodes.shrink();
        assert_eq!(nodes.count(), 10);
        assert!(nodes.bookkeeping_bytes() < 2 * 10 * size_of::<Node>() as u64);
        let again: Vec<NodeId> =
            (0..count as u64).map(|offset| nodes.insert(node(offset))).collect();
        for (offset, &id) in (0..).zip(ids[..10].iter().chain(&again)) {
            let expected = if offset < 10 { offset } else { offset - 10 };
            assert_eq!({ nodes.get(id).offset }, expected);
        }
    }

    #[test]
    fn unused_records_come_again_before_new_ones() {
        let mut nodes = Nodes::default();
        let ids: Vec<NodeId> =
            (0..(FIRST + CHUNK) as u64).map(|at| nodes.insert(node(at))).collect();
        for &id in [&ids[3], &ids[FIRST], &ids[FIRST + 7]] {
            nodes.remove(id);
        }
        let mut again: Vec<usize> = (0..3).map(|at| nodes.insert(node(at)).index()).collect();
        again.sort_unstable();
        assert_eq!(again, [3, FIRST, FIRST + 7]);
        assert_eq!(nodes.insert(node(0)).index(), FIRST + CHUNK);
    }
}
