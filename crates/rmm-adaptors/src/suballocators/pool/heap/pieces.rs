//! Pieces: the upstream blocks that segments are made of, and how they leave the heap.

#![forbid(unsafe_code)]

use std::cmp::Reverse;

use super::nodes::{Node, NodeId, NodeState, SegmentId};
use super::runs::free_neighbours;
use super::zones::Zone;
use super::{Block, Extension, Heap};
use crate::suballocators::pool::values::units::ListId;

/// The memory of one upstream block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// The idle block that contains it, if one does; else the segment's first block.
    near: NodeId,
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

    /// The pieces that overlap no block that `stays` accepts, by segment and offset. O(blocks +
    /// pieces).
    pub(crate) fn pieces_without(&self, stays: impl Fn(&Block) -> bool) -> Vec<Piece> {
        let mut staying = self.blocks().filter(stays).peekable();
        // Both are sorted, and a block that ends before a piece ends before all later pieces.
        let is_before = |block: &Block, piece: &Piece| {
            (block.segment, block.offset + block.size) <= (piece.segment, piece.offset)
        };
        let mut pieces = Vec::new();
        for piece in self.pieces() {
            while staying.next_if(|block| is_before(block, &piece)).is_some() {}
            let end = (piece.segment, piece.offset + piece.size);
            if staying.peek().is_none_or(|block| (block.segment, block.offset) >= end) {
                pieces.push(piece);
            }
        }
        pieces
    }

    /// The idle pieces: the largest first, and of equal ones those in the smallest idle blocks,
    /// which are the least useful. O(n log n) in the idle blocks that may contain a piece and the
    /// pieces in them.
    pub(crate) fn unused_pieces(&mut self) -> Vec<Piece> {
        if self.keeps_pieces {
            return Vec::new();
        }
        self.join_pieces();
        let mut unused = Vec::new();
        for id in self.lists[ListId::ANY_STREAM.index()].iter_from(&self.nodes, self.smallest_piece)
        {
            let Node { segment, offset, size, .. } = *self.nodes.get(id);
            unused.extend(
                self.pieces_in(segment, offset, offset + size).map(|(offset, piece)| {
                    (size, Piece { segment, offset, size: piece, near: id })
                }),
            );
        }
        unused.sort_by_key(|&(block, Piece { segment, offset, size, .. })| {
            (Reverse(size), block, segment, Reverse(offset))
        });
        unused.into_iter().map(|(_, piece)| piece).collect()
    }

    /// Bytes of the pieces of which no part is live. O(blocks that may contain a piece + pieces in
    /// them). In a heap of many blocks, pieces that several streams freed part by part are counted
    /// only while there is an index of them.
    pub(crate) fn whole_free_bytes(&self) -> u64 {
        let least = self.smallest_piece;
        let lists = self.lists.with_blocks();
        let large = lists.flat_map(|(_, list)| list.iter_from(&self.nodes, least));
        // Those with free neighbours are parts of runs.
        let alone = large.filter(|&id| free_neighbours(&self.nodes, id) == (None, None));
        let alone = alone.map(|id| (id, self.nodes.get(id).offset + self.nodes.get(id).size));
        let has_runs = self.runs.is_kept() || self.nodes.count() < self.runs.from;
        let runs = has_runs.then(|| self.runs_at_least(least)).into_iter().flatten();
        let ranges = alone.chain(runs.map(|(_, run)| (run.first, run.end)));
        let bytes = ranges.map(|(first, end)| {
            let Node { segment, offset, .. } = *self.nodes.get(first);
            self.pieces_in(segment, offset, end).map(|(_, bytes)| bytes).sum::<u64>()
        });
        bytes.sum()
    }

    /// The pieces that lie completely in a range of a segment: offsets and bytes.
    fn pieces_in(
        &self,
        segment: SegmentId,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = (u64, u64)> + '_ {
        let inside = self.segment(segment).pieces.range(start..end);
        let inside = inside.filter(move |&(offset, size)| offset + size <= end);
        inside.map(|(&offset, &size)| (offset, size))
    }

    /// Removes idle pieces, all found by one query, from the heap. Returns those that are still
    /// idle: others may have been allocated meanwhile.
    pub(crate) fn remove_pieces(&mut self, mut pieces: Vec<Piece>) -> Vec<Piece> {
        // From the end of a block downwards: the rest below keeps its record.
        pieces.sort_by_key(|&Piece { segment, offset, .. }| Reverse((segment, offset)));
        pieces.retain(|&piece| self.remove_piece(piece));
        pieces
    }

    /// Removes a piece, if it still lies in the idle block that it was found in. Returns whether it
    /// does.
    fn remove_piece(&mut self, piece: Piece) -> bool {
        let Piece { segment, offset, size, near: id } = piece;
        let Some(Some(entry)) = self.segments.get(segment.index()) else { return false };
        let node = self.nodes.get(id);
        let holds = matches!(node.state, NodeState::Free(ListId::ANY_STREAM, _))
            && { node.segment } == segment
            && node.offset <= offset
            && offset + size <= node.offset + node.size;
        if !holds || entry.pieces.get(&offset) != Some(&size) {
            return false;
        }
        let before = offset - node.offset;
        self.delist(id);
        let id = if before > 0 {
            let rest = self.split(id, before);
            self.enlist(id, ListId::ANY_STREAM, 0);
            rest
        } else {
            id
        };
        if self.nodes.get(id).size > size {
            let rest = self.split(id, size);
            self.enlist(rest, ListId::ANY_STREAM, 0);
        }
        self.segment_mut(segment).pieces.remove(&offset);
        self.reserved -= size;
        if self.reserved == 0 {
            self.smallest_piece = u64::MAX;
        }
        self.leave_gap(id);
        true
    }

    /// Turns a detached block into a gap. A segment does not end with a gap: its end moves down,
    /// until nothing is left.
    pub(super) fn leave_gap(&mut self, id: NodeId) {
        self.nodes.get_mut(id).zone = Zone::Large;
        let Node { segment, before, after, .. } = *self.nodes.get(id);
        let is_gap = |heap: &Self, id: &NodeId| matches!(heap.nodes.get(*id).state, NodeState::Gap);
        let mut id = id;
        if let Some(after) = after.filter(|after| is_gap(self, after)) {
            self.gaps.remove(&(segment, self.nodes.get(after).offset));
            self.merge_next(id);
        }
        if let Some(before) = before.filter(|before| is_gap(self, before)) {
            self.gaps.remove(&(segment, self.nodes.get(before).offset));
            self.merge_next(before);
            id = before;
        }
        let Node { offset, before, after, .. } = *self.nodes.get(id);
        if after.is_some() {
            self.nodes.get_mut(id).state = NodeState::Gap;
            self.gaps.insert((segment, offset), id);
            return;
        }
        self.nodes.remove(id);
        if let Some(before) = before {
            self.nodes.get_mut(before).after = None;
            let entry = self.segment_mut(segment);
            (entry.size, entry.last) = (offset, before);
            if entry.extension == Extension::InGaps {
                entry.extension = Extension::Anywhere;
            }
        } else {
            self.segments[segment.index()] = None;
            self.spare_segments.push(Reverse(segment.0));
        }
    }

    /// Bytes of the pieces that overlap no live block, whether the work before the frees is
    /// complete or not. O(free blocks and runs that may contain a piece + pieces in them).
    pub(crate) fn idle_bytes(&self) -> u64 {
        let least = self.smallest_piece;
        let bytes_in = |segment, start, bytes| -> u64 {
            self.pieces_in(segment, start, start + bytes).map(|(_, size)| size).sum()
        };
        let lists = self.lists.with_blocks();
        let alone = lists.flat_map(|(_, list)| list.iter_from(&self.nodes, least));
        let alone = alone.filter(|&id| free_neighbours(&self.nodes, id) == (None, None));
        let in_blocks = alone.map(|id| {
            let Node { segment, offset, size, .. } = *self.nodes.get(id);
            bytes_in(segment, offset, size)
        });
        let in_runs = self.runs_at_least(least).map(|(bytes, run)| {
            let Node { segment, offset, .. } = *self.nodes.get(run.first);
            bytes_in(segment, offset, bytes)
        });
        in_blocks.chain(in_runs).sum()
    }
}
