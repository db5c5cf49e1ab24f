//! What is held at one moment, in parts: live, rounding, whole free pages, and holes.

use serde::Serialize;

use super::share::live_at;
use crate::page::view::{CountedPart, View, ViewSegment};

/// The pages in which memory could be released: 2 MiB, as the driver maps it.
pub const PAGE: u64 = 2 << 20;

/// The parts of what is held at one position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Split {
    /// The position.
    pub position: u32,
    /// Bytes held from the driver, if they are known; else the pages that live blocks are in.
    pub held_bytes: u64,
    /// Whether what is held is known. A log alone does not say it.
    pub is_known: bool,
    /// Bytes that were asked for.
    pub asked_bytes: u64,
    /// What rounding each block up to 256 adds.
    pub rounding_bytes: u64,
    /// Whole pages without a live block.
    pub whole_free_bytes: u64,
    /// Free parts of pages in use, which cannot be released.
    pub hole_bytes: u64,
    /// How many free ranges there are.
    pub holes: u64,
    /// The largest of them.
    pub largest_hole_bytes: u64,
    /// Blocks that are live.
    pub blocks: u64,
    /// What is held beyond the memory whose addresses are known.
    pub other_bytes: u64,
    /// What the pools counted there, if they were asked.
    pub counted: Vec<CountedPart>,
}

impl Split {
    /// At a position.
    pub(crate) fn of(view: &View, position: u32) -> Self {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut split = Self { position, ..Self::default() };
        for block in live_at(view, position) {
            split.blocks += 1;
            split.asked_bytes = split.asked_bytes.saturating_add(block.size);
            split.rounding_bytes += block.aligned() - block.size;
            if block.size > 0 {
                ranges.push((block.address, block.address.saturating_add(block.aligned())));
            }
        }
        ranges.sort_unstable();
        let reserved = view.reserved_at(position);
        let is_there = |segment: &&ViewSegment| segment.start <= position && position < segment.end;
        let mut memory: Vec<(u64, u64)> = view
            .segments
            .iter()
            .filter(is_there)
            .map(|segment| (segment.address, segment.address.saturating_add(segment.size)))
            .collect();
        split.is_known = reserved.is_some();
        if memory.is_empty() && !split.is_known {
            memory = pages(&ranges);
        }
        memory.sort_unstable();
        split.add_holes(&memory, &ranges);
        let sizes = memory.iter().map(|&(start, end)| end - start);
        let mapped = sizes.fold(0, u64::saturating_add);
        let live = split.live_bytes();
        split.held_bytes = reserved.unwrap_or(mapped).max(live);
        let counted = view.counted.iter().find(|counted| counted.position == position);
        split.counted = counted.map(|counted| counted.parts.clone()).unwrap_or_default();
        split.other_bytes =
            split.held_bytes.saturating_sub(live).saturating_sub(split.free_bytes());
        split
    }

    /// Live bytes, each block rounded up.
    pub fn live_bytes(&self) -> u64 {
        self.asked_bytes.saturating_add(self.rounding_bytes)
    }

    /// Free bytes: whole pages and holes.
    pub fn free_bytes(&self) -> u64 {
        self.whole_free_bytes.saturating_add(self.hole_bytes)
    }

    fn add_holes(&mut self, memory: &[(u64, u64)], ranges: &[(u64, u64)]) {
        let mut next = 0;
        for &(start, end) in memory {
            let mut free_from = start;
            while let Some(&(first, last)) = ranges.get(next) {
                if first >= end {
                    break;
                }
                self.add_hole(free_from, first);
                free_from = free_from.max(last);
                next += 1;
            }
            self.add_hole(free_from, end);
        }
    }

    fn add_hole(&mut self, start: u64, end: u64) {
        if end <= start {
            return;
        }
        let bytes = end - start;
        let pages_end = end - end % PAGE;
        let whole =
            start.checked_next_multiple_of(PAGE).map_or(0, |first| pages_end.saturating_sub(first));
        self.whole_free_bytes = self.whole_free_bytes.saturating_add(whole);
        self.hole_bytes = self.hole_bytes.saturating_add(bytes - whole);
        self.holes += 1;
        self.largest_hole_bytes = self.largest_hole_bytes.max(bytes);
    }
}

/// The pages that sorted ranges touch, neighbours joined.
fn pages(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut pages: Vec<(u64, u64)> = Vec::new();
    for &(start, end) in ranges {
        let (start, end) =
            (start - start % PAGE, end.checked_next_multiple_of(PAGE).unwrap_or(end));
        match pages.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => pages.push((start, end)),
        }
    }
    pages
}
