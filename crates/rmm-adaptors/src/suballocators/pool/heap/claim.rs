//! A range that is free, on whichever lists, becomes one live block: for a checkpoint.

#![forbid(unsafe_code)]

use super::Heap;
use super::nodes::{Node, NodeId, NodeState, SegmentId};
use super::zones::Zone;
use crate::suballocators::pool::values::units::{ListId, Point};

impl Heap {
    /// The memory that there is: segment, offset, bytes, by segment and offset. O(blocks).
    pub(crate) fn ranges(&self) -> Vec<(SegmentId, u64, u64)> {
        let mut ranges: Vec<(SegmentId, u64, u64)> = Vec::new();
        for block in self.blocks() {
            match ranges.last_mut() {
                Some((segment, offset, size))
                    if *segment == block.segment && *offset + *size == block.offset =>
                {
                    *size += block.size;
                }
                _ => ranges.push((block.segment, block.offset, block.size)),
            }
        }
        ranges
    }

    /// Makes one live block of a range that is free. `from`: a block of the segment at or before
    /// the range's start; without it the segment's first. What the blocks have beyond the range
    /// stays on their lists. Returns `None` if the range is not free as a whole.
    pub(crate) fn claim(
        &mut self,
        segment: SegmentId,
        from: Option<NodeId>,
        (offset, size): (u64, u64),
    ) -> Option<NodeId> {
        let first = from.unwrap_or(self.segment(segment).first);
        let ends_behind = |&id: &NodeId| {
            let node = self.nodes.get(id);
            node.offset + node.size > offset
        };
        let found = self.blocks_from(first).find(ends_behind)?;
        let start = self.nodes.get(found).offset;
        let mut place = self.take_whole(found)?;
        let mut id = found;
        if start < offset {
            id = self.split(found, offset - start);
            self.free(found, place.0, place.1);
        }
        while self.nodes.get(id).size < size {
            let after = self.nodes.get(id).after;
            let Some(next) = after.and_then(|after| Some((after, self.take_whole(after)?))) else {
                self.free(id, place.0, place.1);
                return None;
            };
            place = next.1;
            self.merge_next(id);
            // As a run that is coalesced for a request.
            self.nodes.get_mut(id).zone = Zone::Large;
        }
        if self.nodes.get(id).size > size {
            let rest = self.split(id, size);
            self.free(rest, place.0, place.1);
        }
        Some(id)
    }

    /// Makes a free block live as a whole. Returns its list and point, or `None` if it is not free.
    fn take_whole(&mut self, id: NodeId) -> Option<(ListId, Point)> {
        let Node { size, state, .. } = *self.nodes.get(id);
        let NodeState::Free(list, point) = state else { return None };
        self.make_live(id, size);
        Some((list, point))
    }
}
