//! Adding memory where it is missing: at a segment's end, and in its gaps.

#![forbid(unsafe_code)]

use super::coalesce::UsableRun;
use super::nodes::{ListId, Node, NodeId, NodeState, Point, SegmentId};
use super::window::{Span, Window, best_window};
use super::{Extension, Heap, Segment};

/// A place for a block, parts of which have no memory yet. Nobody else gets any part of it.
#[derive(Debug)]
#[must_use = "a claim is met or dropped"]
pub(crate) struct PendingExtent {
    pub(super) node: NodeId,
    pub(crate) segment: SegmentId,
    /// What has no memory: offsets and bytes, in ascending order, multiples of the page.
    pub(crate) missing: Vec<(u64, u64)>,
    /// Whether it is the last of its segment, behind which there may be more.
    pub(crate) is_at_end: bool,
    /// Whether all free memory in it was clean, and stays so if nobody uses it.
    is_idle: bool,
}

impl PendingExtent {
    /// Bytes that have no memory.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.missing.iter().map(|&(_, bytes)| bytes).sum()
    }

    /// The offset at which the last of what is missing ends.
    pub(crate) fn end_of_missing(&self) -> u64 {
        self.missing.last().map_or(0, |&(offset, bytes)| offset + bytes)
    }

    /// Where what is left of it goes, if it goes to `used` where others have used it.
    fn place_of_rest(&self, used: (ListId, Point)) -> (ListId, Point) {
        if self.is_idle { (ListId::ANY_STREAM, 0) } else { used }
    }
}

/// Where a block could be.
#[derive(Clone, Copy, Debug)]
struct Place {
    segment: SegmentId,
    window: Window,
    /// A block in which the window starts, or one before that; the segment's last if it starts
    /// behind that.
    from: NodeId,
}

/// What a segment can be extended by at most: an end that is never reached.
const BEYOND: u64 = 1 << 60;

impl Heap {
    /// Lets a segment be extended.
    pub(crate) fn make_extendable(&mut self, segment: SegmentId) {
        self.set_extension(segment, Extension::Anywhere);
    }

    /// Notes that there is no memory to be had at an offset of a segment.
    pub(crate) fn close_at(&mut self, segment: SegmentId, offset: u64) {
        // What was claimed there was given up, and may have been all of it.
        let Some(Some(entry)) = self.segments.get(segment.index()) else { return };
        let is_end = offset >= entry.size && entry.extension == Extension::Anywhere;
        let extension = if is_end { Extension::InGaps } else { Extension::Nowhere };
        self.set_extension(segment, extension);
    }

    fn set_extension(&mut self, segment: SegmentId, extension: Extension) {
        self.segment_mut(segment).extension = extension;
    }

    /// Claims a place for a block of `size` bytes in a segment that can be extended: the one that
    /// takes the least memory to be added, in whole pages, of those whose free blocks `usable`
    /// accepts. Takes time in the number of segments, and of the blocks around gaps and ends and in
    /// runs that are long enough.
    pub(crate) fn reserve(
        &mut self,
        size: u64,
        page: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<PendingExtent> {
        let place = self.best_place(size, page, usable)?;
        Some(self.reserve_place(place))
    }

    /// The bytes that [`claim`](Self::extent) would have to add. Takes as much time.
    pub(crate) fn least_missing(
        &self,
        size: u64,
        page: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<u64> {
        self.best_place(size, page, usable).map(|place| place.window.missing)
    }

    fn best_place(
        &self,
        size: u64,
        page: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<Place> {
        if let Some(place) = self.place_without_gaps(size, &usable) {
            return Some(place);
        }
        let mut best: Option<Place> = None;
        let mut run = Vec::new();
        for (index, segment) in (0..).zip(&self.segments) {
            let Some(segment) = segment else { continue };
            if segment.extension == Extension::Nowhere {
                continue;
            }
            let id = SegmentId(index);
            let has_open_end =
                segment.extension == Extension::Anywhere && segment.size.is_multiple_of(page);
            let gaps =
                self.gaps.range((id, 0)..=(id, u64::MAX)).map(|(&(_, offset), &gap)| (offset, gap));
            let end = has_open_end.then_some((segment.size, segment.last));
            // Up to here the gaps have been in a run.
            let mut seen = 0;
            for (offset, near) in gaps.chain(end) {
                if offset < seen {
                    continue;
                }
                let from = self.start_of_run(near, size, &usable);
                seen = self.run_from(from, offset, size, &usable, &mut run);
                if seen == segment.size && has_open_end {
                    run.push(Span { offset: segment.size, size: BEYOND, is_gap: true });
                    seen += BEYOND;
                }
                if let Some(window) = best_window(&run, size, page)
                    && best.is_none_or(|best| window.missing < best.window.missing)
                {
                    best = Some(Place { segment: id, window, from });
                }
            }
        }
        best
    }

    /// A place that lacks nothing, in a segment that can be extended.
    fn place_without_gaps(
        &self,
        size: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<Place> {
        let block = self.find_usable(size, &usable);
        let block = block.map(|first| UsableRun { first, bytes: self.nodes.get(first).size });
        let run = block.or_else(|| self.shortest_usable_run(size, usable))?;
        let Node { segment, offset, .. } = *self.nodes.get(run.first);
        let window = Window { start: offset, end: offset + run.bytes, missing: 0 };
        Some(Place { segment, window, from: run.first })
    }

    /// Whether a block may be a part of a window.
    fn part_of(&self, id: NodeId, usable: impl Fn(ListId, Point) -> bool) -> Option<Span> {
        let Node { offset, size, state, .. } = *self.nodes.get(id);
        let part = |is_gap| Some(Span { offset, size, is_gap });
        match state {
            NodeState::Gap => part(true),
            NodeState::Free(list, point) if usable(list, point) => part(false),
            _ => None,
        }
    }

    /// Where the run of usable blocks and gaps starts that `near` is in or behind, or less far
    /// away: no window with what is behind `near` in it starts `size` bytes before that.
    fn start_of_run(
        &self,
        near: NodeId,
        size: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> NodeId {
        let mut start = near;
        if self.part_of(near, &usable).is_none() {
            return start;
        }
        let mut bytes = 0;
        while let Some(before) = self.nodes.get(start).before
            && bytes < size
            && let Some(part) = self.part_of(before, &usable)
        {
            start = before;
            bytes += part.size;
        }
        start
    }

    /// Collects the run that starts with a block, up to `size` bytes behind its last gap and behind
    /// `offset`. Returns where it ends.
    fn run_from(
        &self,
        from: NodeId,
        offset: u64,
        size: u64,
        usable: impl Fn(ListId, Point) -> bool,
        run: &mut Vec<Span>,
    ) -> u64 {
        run.clear();
        let (mut end, mut far) = (offset, offset.saturating_add(size));
        for part in self.blocks_from(from).map_while(|id| self.part_of(id, &usable)) {
            if part.offset >= far {
                break;
            }
            end = part.offset + part.size;
            if part.is_gap {
                far = end.saturating_add(size);
            }
            run.push(part);
        }
        end
    }

    /// Makes one block that is coming of a place.
    fn reserve_place(&mut self, place: Place) -> PendingExtent {
        let Place { segment, window: Window { start, end, .. }, from } = place;
        let (mut missing, mut is_idle) = (Vec::new(), true);
        let mut claimed: Option<NodeId> = None;
        let &Segment { size, extension, .. } = self.segment(segment);
        let mut next = Some(from);
        while let Some(id) = next {
            let &Node { offset, size, state, .. } = self.nodes.get(id);
            next = self.nodes.get(id).after;
            if offset + size <= start {
                continue;
            }
            if offset >= end {
                break;
            }
            // Only gaps are cut: a free block is in the window with all of it.
            if offset < start {
                let rest = self.split(id, start - offset);
                self.gaps.insert((segment, start), rest);
                next = Some(rest);
                continue;
            }
            if offset + size > end {
                let rest = self.split(id, end - offset);
                self.gaps.insert((segment, end), rest);
                next = Some(rest);
            }
            if state == NodeState::Gap {
                self.gaps.remove(&(segment, offset));
                self.nodes.get_mut(id).state = NodeState::Detached;
                missing.push((offset, self.nodes.get(id).size));
            } else {
                let (list, _) = self.delist(id);
                is_idle &= list == ListId::ANY_STREAM;
            }
            match claimed {
                Some(claimed) => self.merge_next(claimed),
                None => claimed = Some(id),
            }
        }
        let is_at_end = end >= size && extension == Extension::Anywhere;
        if end > size {
            missing.push((size, end - size));
            claimed = Some(self.append(segment, claimed, end - size));
        }
        let node = claimed.expect("a window is not empty");
        PendingExtent { node, segment, missing, is_at_end, is_idle }
    }

    /// Adds bytes at a segment's end: to the claimed last block, or as a block of its own.
    fn append(&mut self, segment: SegmentId, claimed: Option<NodeId>, bytes: u64) -> NodeId {
        let entry = self.segment_mut(segment);
        let (offset, last) = (entry.size, entry.last);
        entry.size += bytes;
        if let Some(claimed) = claimed {
            debug_assert_eq!(claimed, last, "a window that reaches beyond the end is one with it");
            self.nodes.get_mut(claimed).size += bytes;
            return claimed;
        }
        let id = self.nodes.insert(Node {
            segment,
            offset,
            size: bytes,
            state: NodeState::Detached,
            before: Some(last),
            after: None,
            previous: None,
            next: None,
        });
        self.nodes.get_mut(last).after = Some(id);
        self.segment_mut(segment).last = id;
        id
    }

    /// Lets a claim at its segment's end reach further, by whole pages.
    pub(crate) fn widen(&mut self, extent: &mut PendingExtent, bytes: u64) {
        // Others may have extended the segment since the extent.
        if self.nodes.get(extent.node).after.is_some() || bytes == 0 {
            return;
        }
        let entry = self.segment_mut(extent.segment);
        let end = entry.size;
        entry.size += bytes;
        self.nodes.get_mut(extent.node).size += bytes;
        match extent.missing.last_mut() {
            Some((offset, missing)) if *offset + *missing == end => *missing += bytes,
            _ => extent.missing.push((end, bytes)),
        }
    }

    /// Takes the memory of a claim for there, in these pieces, and hands out a block of `size`
    /// bytes. What is left of it goes to the list and point `rest`, if somebody has used it.
    pub(crate) fn commit(
        &mut self,
        extent: &PendingExtent,
        pieces: &[(u64, u64)],
        size: u64,
        rest: (ListId, Point),
    ) -> NodeId {
        let (into, point) = extent.place_of_rest(rest);
        self.segment_mut(extent.segment).pieces.extend(pieces.iter().copied());
        let smallest = pieces.iter().map(|&(_, bytes)| bytes).min().unwrap_or(u64::MAX);
        self.smallest_piece = smallest.min(self.smallest_piece);
        self.reserved += extent.missing_bytes();
        let Node { offset, size: whole, .. } = *self.nodes.get(extent.node);
        let is_last = |&&(start, bytes): &&(u64, u64)| start + bytes == offset + whole;
        if let Some(&(start, _)) = extent.missing.last().filter(is_last) {
            let used = start.saturating_sub(offset).max(size);
            if used < whole {
                let rest = self.split(extent.node, used);
                self.insert_coalesced(rest, ListId::ANY_STREAM, 0);
            }
        }
        if self.nodes.get(extent.node).size > size {
            let rest = self.split(extent.node, size);
            self.insert_coalesced(rest, into, point);
        }
        self.nodes.get_mut(extent.node).state = NodeState::Live;
        self.live += self.nodes.get(extent.node).size;
        extent.node
    }

    /// Gives a claim up: what has no memory is a gap again, and the rest goes to the list `into` at
    /// the point `point`, if somebody has used it.
    pub(crate) fn abort(&mut self, extent: PendingExtent, into: ListId, point: Point) {
        let (into, point) = extent.place_of_rest((into, point));
        let mut rest = Some(extent.node);
        for (offset, bytes) in extent.missing {
            let id = rest.expect("what is missing lies in the claim");
            let before = offset - self.nodes.get(id).offset;
            let gap = if before > 0 {
                let gap = self.split(id, before);
                self.insert_coalesced(id, into, point);
                gap
            } else {
                id
            };
            rest = (self.nodes.get(gap).size > bytes).then(|| self.split(gap, bytes));
            self.leave_gap(gap);
        }
        if let Some(id) = rest {
            self.insert_coalesced(id, into, point);
        }
    }
}
