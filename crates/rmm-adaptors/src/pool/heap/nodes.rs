//! Blocks as records beside the memory: who the neighbours are, and which list a free block is in.

#![forbid(unsafe_code)]

use std::num::NonZeroU32;

/// A block's number in the arena, from 1: so that a record with its four links stays within a cache line.
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

const _: () = assert!(size_of::<Node>() <= 52);

/// A segment's number: one piece of memory from upstream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct SegmentId(pub(super) u32);

impl SegmentId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A list of free blocks: list 0 is that of clean blocks, the others belong to streams.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ListId(pub(crate) u32);

impl ListId {
    /// Free blocks that no work uses any more: everybody may have them.
    pub(crate) const CLEAN: Self = Self(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// When a free block may be used by others: the freeing stream's count at the time. Points of one stream only grow.
pub(crate) type Point = u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Live,
    /// Without memory.
    Gap,
    /// On its way from one state to another: what is claimed stays so until memory has come for all of it.
    Moving,
    /// In this list, freed at this point.
    Free(ListId, Point),
    /// Not a block at the moment: the record waits to be used again.
    Unused,
}

/// A block of a segment. Packed, since there may be many; no field needs more than four bytes' alignment to be read.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(super) struct Node {
    pub(super) segment: SegmentId,
    /// Bytes from the segment's start.
    pub(super) offset: u64,
    /// Bytes; a multiple of the granule.
    pub(super) size: u64,
    pub(super) state: State,
    /// The neighbours in the segment.
    pub(super) before: Option<NodeId>,
    pub(super) after: Option<NodeId>,
    /// The neighbours in the bin's list, while free.
    pub(super) previous: Option<NodeId>,
    pub(super) next: Option<NodeId>,
}

/// All records. Freed records are used again, so a steady program needs no host memory.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    /// The first record that waits to be used again; each links to the next.
    unused: Option<NodeId>,
}

/// A part of the records by which they grow: doubling would waste more memory than it saves time.
const GROWTH: usize = 16;
/// The fewest by which they grow.
const LEAST_GROWTH: usize = 256;

impl Nodes {
    pub(super) fn insert(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.unused {
            self.unused = self.nodes[id.index()].next;
            self.nodes[id.index()] = node;
            return id;
        }
        let id = NodeId::at(self.nodes.len())
            .expect("2^32 records are more than any host's memory holds");
        if self.nodes.len() == self.nodes.capacity() {
            self.nodes.reserve_exact((self.nodes.len() / GROWTH).max(LEAST_GROWTH));
        }
        self.nodes.push(node);
        id
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        node.state = State::Unused;
        node.next = self.unused.replace(id);
    }

    /// How many records there are, used or not.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Host bytes of all records.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Node>()) as u64
    }

    /// Frees the host memory of unused records at the end.
    pub(super) fn shrink(&mut self) {
        let is_used = |node: &Node| !matches!(node.state, State::Unused);
        self.nodes.truncate(self.nodes.iter().rposition(is_used).map_or(0, |last| last + 1));
        self.nodes.shrink_to_fit();
        self.unused = None;
        for index in (0..self.nodes.len()).rev() {
            if matches!(self.nodes[index].state, State::Unused) {
                self.nodes[index].next = std::mem::replace(&mut self.unused, NodeId::at(index));
            }
        }
    }

    pub(super) fn get(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }
}
