//! Adding memory where it is missing: at a segment's end, and in its gaps.

#![forbid(unsafe_code)]

use super::nodes::{ListId, Node, NodeId, Point, SegmentId, State};
use super::{Extension, Heap};

/// A place for a block, parts of which have no memory yet. Nobody else gets any part of it.
#[derive(Debug)]
#[must_use = "a claim is met or dropped"]
pub(crate) struct Claim {
    pub(super) node: NodeId,
    pub(crate) segment: SegmentId,
    /// What has no memory: offsets and bytes, in ascending order, multiples of the page.
    pub(crate) missing: Vec<(u64, u64)>,
    /// Whether it is the last of its segment, behind which there may be more.
    pub(crate) is_at_end: bool,
    /// Whether all free memory in it was clean, and stays so if nobody uses it.
    is_clean: bool,
}

impl Claim {
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
        if self.is_clean { (ListId::CLEAN, 0) } else { used }
    }
}

/// Where a block could be.
#[derive(Clone, Copy, Debug)]
struct Window {
    segment: SegmentId,
    start: u64,
    end: u64,
    missing: u64,
}

/// A free block or a gap in a run of them.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: u64,
    size: u64,
    is_gap: bool,
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
        let Some(Some(entry)) = self.segments.get(segment.index()) else { return };
        let is_end = offset >= entry.size && entry.extension == Extension::Anywhere;
        let extension = if is_end { Extension::InGaps } else { Extension::Nowhere };
        self.set_extension(segment, extension);
    }

    fn set_extension(&mut self, segment: SegmentId, extension: Extension) {
        if let Some(Some(entry)) = self.segments.get_mut(segment.index()) {
            entry.extension = extension;
        }
    }

    /// Claims a place for a block of `size` bytes in a segment that can be extended: the one that takes the least memory to be added,
    /// in whole pages, of those whose free blocks `usable` accepts. Takes time in the number of all blocks.
    pub(crate) fn claim(
        &mut self,
        size: u64,
        page: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<Claim> {
        let window = self.best_place(size, page, usable)?;
        Some(self.take_window(window))
    }

    /// The bytes that [`claim`](Self::claim) would have to add. Takes time in the number of all blocks.
    pub(crate) fn least_missing(
        &self,
        size: u64,
        page: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<u64> {
        self.best_place(size, page, usable).map(|window| window.missing)
    }

    fn best_place(
        &self,
        size: u64,
        page: u64,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> Option<Window> {
        let mut best: Option<Window> = None;
        let mut run = Vec::new();
        for (index, segment) in (0..).zip(&self.segments) {
            let Some(segment) = segment else { continue };
            if segment.extension == Extension::Nowhere {
                continue;
            }
            let mut consider = |run: &mut Vec<Part>| {
                let window = best_window(run, size, page);
                if let Some((start, end, missing)) = window
                    && best.is_none_or(|best| missing < best.missing)
                {
                    best = Some(Window { segment: SegmentId(index), start, end, missing });
                }
                run.clear();
            };
            for id in self.blocks_from(segment.first) {
                let &Node { offset, size, state, .. } = self.nodes.get(id);
                match state {
                    State::Gap => run.push(Part { offset, size, is_gap: true }),
                    State::Free(list, point) if usable(list, point) => {
                        run.push(Part { offset, size, is_gap: false });
                    }
                    _ => consider(&mut run),
                }
            }
            if segment.extension == Extension::Anywhere && segment.size.is_multiple_of(page) {
                run.push(Part { offset: segment.size, size: BEYOND, is_gap: true });
            }
            consider(&mut run);
        }
        best
    }

    /// Makes one block that is coming of a window.
    fn take_window(&mut self, window: Window) -> Claim {
        let Window { segment, start, end, .. } = window;
        let (mut missing, mut is_clean) = (Vec::new(), true);
        let mut claimed: Option<NodeId> = None;
        let (first, size, extension) = match &self.segments[segment.index()] {
            Some(entry) => (Some(entry.first), entry.size, entry.extension),
            None => (None, 0, Extension::Nowhere),
        };
        let mut next = first;
        let mut last = None;
        while let Some(id) = next {
            let &Node { offset, size, state, .. } = self.nodes.get(id);
            last = Some(id);
            next = self.nodes.get(id).after;
            if offset + size <= start {
                continue;
            }
            if offset >= end {
                break;
            }
            // Only gaps are cut: a free block is in the window with all of it.
            if offset < start {
                next = Some(self.split(id, start - offset));
                continue;
            }
            if offset + size > end {
                next = Some(self.split(id, end - offset));
            }
            if state == State::Gap {
                missing.push((offset, self.nodes.get(id).size));
            }
            if let State::Free(list, _) = state {
                is_clean &= list == ListId::CLEAN;
            }
            self.detach(id);
            self.nodes.get_mut(id).state = State::Coming;
            match claimed {
                Some(claimed) => {
                    self.absorb_after(claimed);
                    last = Some(claimed);
                }
                None => claimed = Some(id),
            }
        }
        let is_at_end = end >= size && extension == Extension::Anywhere;
        if end > size {
            missing.push((size, end - size));
            claimed = Some(self.append(segment, claimed.or(last), claimed.is_some(), end - size));
        }
        let node = claimed.or(last).or(first).expect("a window is of a segment, which has a block");
        Claim { node, segment, missing, is_at_end, is_clean }
    }

    /// Adds bytes at a segment's end: to the claimed last block, or as a block of its own.
    fn append(
        &mut self,
        segment: SegmentId,
        last: Option<NodeId>,
        is_claimed: bool,
        bytes: u64,
    ) -> NodeId {
        let offset = self.segments[segment.index()].as_ref().map_or(0, |entry| entry.size);
        if let Some(entry) = &mut self.segments[segment.index()] {
            entry.size += bytes;
        }
        if let Some(last) = last.filter(|_| is_claimed) {
            self.nodes.get_mut(last).size += bytes;
            return last;
        }
        let id = self.nodes.insert(Node {
            segment,
            offset,
            size: bytes,
            state: State::Coming,
            before: last,
            after: None,
            previous: None,
            next: None,
        });
        if let Some(last) = last {
            self.nodes.get_mut(last).after = Some(id);
        }
        id
    }

    /// Lets a claim at its segment's end reach further, by whole pages.
    pub(crate) fn widen(&mut self, claim: &mut Claim, bytes: u64) {
        let Some(entry) = &mut self.segments[claim.segment.index()] else { return };
        if self.nodes.get(claim.node).after.is_some() || bytes == 0 {
            return;
        }
        let end = entry.size;
        entry.size += bytes;
        self.nodes.get_mut(claim.node).size += bytes;
        match claim.missing.last_mut() {
            Some((offset, missing)) if *offset + *missing == end => *missing += bytes,
            _ => claim.missing.push((end, bytes)),
        }
    }

    /// Takes the memory of a claim for there, in these pieces, and hands out a block of `size` bytes. What is left of it goes to the
    /// list and point `rest`, if somebody has used it.
    pub(crate) fn meet(
        &mut self,
        claim: &Claim,
        pieces: &[(u64, u64)],
        size: u64,
        rest: (ListId, Point),
    ) -> NodeId {
        let (into, point) = claim.place_of_rest(rest);
        if let Some(entry) = &mut self.segments[claim.segment.index()] {
            entry.pieces.extend(pieces.iter().copied());
        }
        self.reserved += claim.missing_bytes();
        let Node { offset, size: whole, .. } = *self.nodes.get(claim.node);
        let is_last = |&&(start, bytes): &&(u64, u64)| start + bytes == offset + whole;
        if let Some(&(start, _)) = claim.missing.last().filter(is_last) {
            let used = start.saturating_sub(offset).max(size);
            if used < whole {
                let rest = self.split(claim.node, used);
                self.insert_merged(rest, ListId::CLEAN, 0);
            }
        }
        if self.nodes.get(claim.node).size > size {
            let rest = self.split(claim.node, size);
            self.insert_merged(rest, into, point);
        }
        self.nodes.get_mut(claim.node).state = State::Live;
        self.live += self.nodes.get(claim.node).size;
        claim.node
    }

    /// Gives a claim up: what has no memory is a gap again, and the rest goes to the list `into` at the point `point`, if somebody has
    /// used it.
    pub(crate) fn give_up(&mut self, claim: Claim, into: ListId, point: Point) {
        let (into, point) = claim.place_of_rest((into, point));
        let mut rest = Some(claim.node);
        for (offset, bytes) in claim.missing {
            let Some(id) = rest else { return };
            let before = offset - self.nodes.get(id).offset;
            let gap = if before > 0 {
                let gap = self.split(id, before);
                self.insert_merged(id, into, point);
                gap
            } else {
                id
            };
            rest = (self.nodes.get(gap).size > bytes).then(|| self.split(gap, bytes));
            self.leave_gap(gap);
        }
        if let Some(id) = rest {
            self.insert_merged(id, into, point);
        }
    }
}

/// The place in a run of free blocks and gaps for a block of `size` bytes that takes the least memory to be added: its start, end and
/// the bytes missing in it. It has each free block with all of it or not at all, and of gaps whole pages.
fn best_window(run: &[Part], size: u64, page: u64) -> Option<(u64, u64, u64)> {
    let mut best: Option<(u64, u64, u64)> = None;
    let mut consider = |start, end, missing| {
        if best.is_none_or(|(_, _, least)| missing < least) {
            best = Some((start, end, missing));
        }
    };
    for (index, first) in run.iter().enumerate() {
        // From the start of a part upwards.
        let (mut covered, mut missing) = (0_u64, 0);
        for part in &run[index..] {
            let taken = needed_of(part, size - covered, page);
            missing += if part.is_gap { taken } else { 0 };
            covered += taken;
            if covered >= size {
                consider(first.offset, part.offset + taken, missing);
                break;
            }
        }
        // From the end of a free block downwards.
        let (mut covered, mut missing) = (0_u64, 0);
        for part in run[..=index].iter().rev().take_while(|_| !first.is_gap) {
            let taken = needed_of(part, size - covered, page);
            missing += if part.is_gap { taken } else { 0 };
            covered += taken;
            if covered >= size {
                consider(part.offset + part.size - taken, first.offset + first.size, missing);
                break;
            }
        }
    }
    best
}

/// How much of a part is taken when so much is still needed.
fn needed_of(part: &Part, needed: u64, page: u64) -> u64 {
    if part.is_gap { needed.next_multiple_of(page).min(part.size) } else { part.size }
}
