//! Giving memory back: the pieces that segments are made of.

#![forbid(unsafe_code)]

use std::cmp::Reverse;

use super::nodes::{ListId, NodeId, SegmentId, State};
use super::{Block, Extension, Heap};

/// Memory that was taken in one go, and goes back in one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// A block that it may lie in, to look at first.
    near: NodeId,
}

impl Piece {
    /// Whether a part of the block lies in the piece.
    pub(crate) fn overlaps(&self, block: &Block) -> bool {
        self.segment == block.segment
            && block.offset < self.offset + self.size
            && self.offset < block.offset + block.size
    }
}

impl Heap {
    /// All pieces, by segment and offset.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        (0..).zip(&self.segments).flat_map(|(index, segment)| {
            segment.iter().flat_map(move |entry| {
                let (segment, near) = (SegmentId(index), entry.first);
                let pieces = entry.pieces.iter();
                pieces.map(move |(&offset, &size)| Piece { segment, offset, size, near })
            })
        })
    }

    /// The pieces that lie in clean blocks: the largest first, and of these the ones in the smallest blocks, of which least can be
    /// made. Takes time in the number of clean blocks and of pieces in them.
    pub(crate) fn unused_pieces(&self) -> Vec<Piece> {
        let mut unused = Vec::new();
        for id in self.lists[ListId::CLEAN.index()].iter(&self.nodes) {
            let node = self.nodes.get(id);
            let Some(segment) = &self.segments[node.segment.index()] else { continue };
            let end = node.offset + node.size;
            let inside = segment.pieces.range(node.offset..end);
            for (&offset, &size) in inside.filter(|&(offset, size)| offset + size <= end) {
                unused.push((node.size, Piece { segment: node.segment, offset, size, near: id }));
            }
        }
        unused.sort_by_key(|&(block, Piece { segment, offset, size, .. })| {
            (Reverse(size), block, segment, Reverse(offset))
        });
        unused.into_iter().map(|(_, piece)| piece).collect()
    }

    /// Takes a piece out, if it lies in a clean block; says whether it does.
    pub(crate) fn remove_piece(&mut self, piece: Piece) -> bool {
        let Piece { segment, offset, size, near } = piece;
        let Some(entry) = self.segments.get(segment.index()).and_then(Option::as_ref) else {
            return false;
        };
        let is_one = entry.pieces.get(&offset) == Some(&size);
        let holds = |&id: &NodeId| {
            let node = self.nodes.get(id);
            matches!(node.state, State::Free(ListId::CLEAN, _))
                && node.segment == segment
                && node.offset <= offset
                && offset + size <= node.offset + node.size
        };
        let clean = self.lists[ListId::CLEAN.index()].iter(&self.nodes);
        let Some(id) = std::iter::once(near).chain(clean).find(|id| is_one && holds(id)) else {
            return false;
        };
        self.lists[ListId::CLEAN.index()].remove(&mut self.nodes, id);
        let before = offset - self.nodes.get(id).offset;
        let id = if before > 0 {
            let rest = self.split(id, before);
            self.lists[ListId::CLEAN.index()].insert(&mut self.nodes, id);
            rest
        } else {
            id
        };
        if self.nodes.get(id).size > size {
            let rest = self.split(id, size);
            self.lists[ListId::CLEAN.index()].insert(&mut self.nodes, rest);
        }
        if let Some(entry) = &mut self.segments[segment.index()] {
            entry.pieces.remove(&offset);
        }
        self.reserved -= size;
        self.leave_gap(id);
        true
    }

    /// Makes a gap of a block that is in no list. A segment does not end with one: its end moves down, until nothing is left.
    pub(super) fn leave_gap(&mut self, id: NodeId) {
        self.nodes.get_mut(id).state = State::Gap;
        let is_gap =
            |heap: &Self, id: NodeId| matches!(heap.nodes.get(id).state, State::Gap).then_some(id);
        let mut id = id;
        if self.nodes.get(id).after.is_some_and(|after| is_gap(self, after).is_some()) {
            self.absorb_after(id);
        }
        if let Some(before) = self.nodes.get(id).before.and_then(|before| is_gap(self, before)) {
            self.absorb_after(before);
            id = before;
        }
        let node = *self.nodes.get(id);
        if node.after.is_some() {
            return;
        }
        self.nodes.remove(id);
        let entry = &mut self.segments[node.segment.index()];
        if let Some(before) = node.before {
            self.nodes.get_mut(before).after = None;
            if let Some(segment) = entry {
                segment.size = node.offset;
                if segment.extension == Extension::InGaps {
                    segment.extension = Extension::Anywhere;
                }
            }
        } else {
            *entry = None;
        }
    }

    /// Bytes of the pieces that no live block lies in, whether what freed them is done or not. Takes time in the number of all
    /// blocks.
    pub(crate) fn idle_bytes(&self) -> u64 {
        let mut idle = self.reserved;
        for segment in self.segments.iter().flatten() {
            let mut counted = 0;
            for id in self.blocks_from(segment.first) {
                let node = self.nodes.get(id);
                if matches!(node.state, State::Live | State::Coming) {
                    let end = node.offset + node.size;
                    // What is coming may start where no piece is.
                    let first = segment.pieces.range(..=node.offset).next_back();
                    let first = first.filter(|&(from, size)| from + size > node.offset);
                    let from = first.map_or(node.offset, |(&from, _)| from).max(counted);
                    if from < end {
                        idle -= segment.pieces.range(from..end).map(|(_, size)| size).sum::<u64>();
                        counted = end;
                    }
                }
            }
        }
        idle
    }
}
