//! In-place growth: reserving a range that is partly unmapped, and committing it once its pages are
//! mapped.

#![forbid(unsafe_code)]

use super::coalesce::UsableRun;
use super::nodes::{IdleFrom, Node, NodeId, NodeState, SegmentId};
use super::window::{Span, Window, best_window};
use super::zones::Zone;
use super::{Extension, Heap, Segment};
use crate::suballocators::pool::values::units::{ListId, Point};

/// A reserved range, parts of which are unmapped. No other request gets any part of it.
#[derive(Debug)]
#[must_use = "a reserved range is committed or aborted"]
pub(crate) struct PendingExtent {
    pub(super) node: NodeId,
    pub(crate) segment: SegmentId,
    /// The unmapped ranges: offsets and bytes, ascending, multiples of the page.
    pub(crate) missing: Vec<(u64, u64)>,
    /// Whether it ends its segment and the segment can grow behind it.
    pub(crate) is_at_end: bool,
    /// Whether all free memory in it was idle.
    is_idle: bool,
}

impl PendingExtent {
    /// Unmapped bytes.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.missing.iter().map(|&(_, bytes)| bytes).sum()
    }

    /// The offset at which the last unmapped range ends.
    pub(crate) fn end_of_missing(&self) -> u64 {
        self.missing.last().map_or(0, |&(offset, bytes)| offset + bytes)
    }

    /// The list and point of its remainder: idle, or `used` if any of it was in use before.
    fn place_of_rest(&self, used: (ListId, Point)) -> (ListId, Point) {
        if self.is_idle { (ListId::ANY_STREAM, 0) } else { used }
    }
}

/// A candidate range for a block.
#[derive(Clone, Copy, Debug)]
struct Place {
    segment: SegmentId,
    window: Window,
    /// The block in which the window starts, or one before it; the segment's last block if the
    /// window starts behind that.
    from: NodeId,
}

/// Stands for the unlimited space behind an extendable segment.
const BEYOND: u64 = 1 << 60;

impl Heap {
    /// Marks a segment as extendable.
    pub(crate) fn make_extendable(&mut self, segment: SegmentId) {
        self.slabs.are_made = true;
        self.set_extension(segment, Extension::Anywhere);
    }

    /// Whether a segment has been extendable.
    #[inline]
    pub(crate) fn is_extendable(&self) -> bool {
        self.slabs.are_made
    }

    /// Notes that the addresses at an offset of a segment are taken.
    pub(crate) fn close_at(&mut self, segment: SegmentId, offset: u64) {
        // The range reserved there was aborted, and may have been the whole segment.
        let Some(Some(entry)) = self.segments.get(segment.index()) else { return };
        let is_end = offset >= entry.size && entry.extension == Extension::Anywhere;
        let extension = if is_end { Extension::InGaps } else { Extension::Nowhere };
        self.set_extension(segment, extension);
    }

    fn set_extension(&mut self, segment: SegmentId, extension: Extension) {
        self.segment_mut(segment).extension = extension;
    }

    /// Reserves a range for a block of `size` bytes in an extendable segment: the one that needs
    /// the fewest pages to be mapped, of those whose free blocks `usable` accepts. O(segments +
    /// blocks around gaps and ends + blocks in runs that are long enough).
    pub(crate) fn reserve(
        &mut self,
        size: u64,
        page: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<PendingExtent> {
        let place = self.best_place(size, page, usable)?;
        Some(self.reserve_place(place))
    }

    /// The bytes that [`reserve`](Self::reserve) would leave unmapped. As expensive.
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
            // Gaps up to here were part of a run already.
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

    /// A range that is completely mapped.
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

    /// The span of a block that may be part of a window.
    fn part_of(&self, id: NodeId, usable: impl Fn(ListId, Point) -> bool) -> Option<Span> {
        let Node { offset, size, state, .. } = *self.nodes.get(id);
        let part = |is_gap| Some(Span { offset, size, is_gap });
        match state {
            NodeState::Gap => part(true),
            NodeState::Free(list, point) if usable(list, point) => part(false),
            _ => None,
        }
    }

    /// The first block, at most `size` bytes back, of the run of usable blocks and gaps that
    /// contains `near`.
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
    /// `offset`. Returns its end.
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

    /// Turns a candidate range into one reserved block.
    fn reserve_place(&mut self, place: Place) -> PendingExtent {
        let Place { segment, window: Window { start, end, .. }, from } = place;
        let (mut missing, mut is_idle) = (Vec::new(), true);
        let mut reserved: Option<NodeId> = None;
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
            // Only gaps are split: a free block lies completely in the window.
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
                self.nodes.get_mut(id).zone = Zone::Large;
                is_idle &= list == ListId::ANY_STREAM;
            }
            match reserved {
                Some(reserved) => self.merge_next(reserved),
                None => reserved = Some(id),
            }
        }
        let is_at_end = end >= size && extension == Extension::Anywhere;
        if end > size {
            missing.push((size, end - size));
            reserved = Some(self.append(segment, reserved, end - size));
        }
        let node = reserved.expect("a window is not empty");
        PendingExtent { node, segment, missing, is_at_end, is_idle }
    }

    /// Adds bytes at a segment's end: to the reserved last block, or as a block of its own.
    fn append(&mut self, segment: SegmentId, reserved: Option<NodeId>, bytes: u64) -> NodeId {
        let entry = self.segment_mut(segment);
        let (offset, last) = (entry.size, entry.last);
        entry.size += bytes;
        if let Some(reserved) = reserved {
            debug_assert_eq!(reserved, last, "a window that reaches beyond the end is one with it");
            self.nodes.get_mut(reserved).size += bytes;
            return reserved;
        }
        let id = self.nodes.insert(Node {
            segment,
            offset,
            size: bytes,
            state: NodeState::Detached,
            zone: Zone::Large,
            idle_from: IdleFrom::NONE,
            before: Some(last),
            after: None,
            previous: None,
            next: None,
        });
        self.nodes.get_mut(last).after = Some(id);
        self.segment_mut(segment).last = id;
        id
    }

    /// Extends a reserved range at its segment's end by whole pages.
    pub(crate) fn widen(&mut self, extent: &mut PendingExtent, bytes: u64) {
        // Others may have extended the segment since it was reserved.
        if { self.nodes.get(extent.node).after }.is_some() || bytes == 0 {
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

    /// Commits a reserved range: its pages are now mapped, as `pieces`. Returns a live block of
    /// `size` bytes. The remainder is idle if all of the range was, and else goes to the list and
    /// point `rest`.
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
        if !self.nodes.get(extent.node).idle_from.is_none() {
            self.nodes.get_mut(extent.node).idle_from = self.leave_absorbed(extent.node, size);
        }
        if self.nodes.get(extent.node).size > size {
            let rest = self.split(extent.node, size);
            self.insert_coalesced(rest, into, point);
        }
        self.nodes.note_change();
        self.nodes.get_mut(extent.node).idle_from = IdleFrom::NONE;
        self.nodes.get_mut(extent.node).state = NodeState::Live;
        self.live += self.nodes.get(extent.node).size;
        extent.node
    }

    /// Aborts a reserved range: its unmapped parts are gaps again. The rest is idle if all of the
    /// range was, and else goes to the list `into` at the point `point`.
    pub(crate) fn abort(&mut self, extent: PendingExtent, into: ListId, point: Point) {
        let (into, point) = extent.place_of_rest((into, point));
        let mut rest = Some(extent.node);
        for (offset, bytes) in extent.missing {
            let id = rest.expect("what is missing lies in the reserved range");
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
