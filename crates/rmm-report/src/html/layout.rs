//! The layout of a heap map: pure arithmetic, no drawing.
//!
//! Every segment is a strip, to the same scale. A strip that is too long for the picture goes on in
//! the next row, as text does, so that a heap of many GiB still shows its small blocks.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::results::{BlockState, HeapBlock};

/// The most rows of a map. Where there are more segments, the largest are shown.
const MAX_ROWS: usize = 32;
/// The fewest bytes of a row.
const MIN_ROW_BYTES: u64 = 4096;
/// A live piece of at least this many pixels is drawn as a block of its own, with its edge.
const WIDE: u64 = 3;

/// A heap map.
pub(super) struct Layout {
    /// The rows, from above.
    pub(super) rows: Vec<Row>,
    /// How many bytes a whole row stands for.
    pub(super) row_bytes: u64,
    /// How many segments there are, those without a row counted.
    pub(super) segments: usize,
    /// How many of them have no row, and the bytes of their blocks.
    pub(super) hidden: (usize, u64),
    /// The bytes of all gaps.
    pub(super) gap_bytes: u64,
}

/// A row: a segment or a part of one.
pub(super) struct Row {
    pub(super) segment: u32,
    /// How many bytes of the segment are before this row.
    pub(super) offset: u64,
    /// Its length in pixels, at least 1.
    pub(super) pixels: u64,
    /// Addresses without memory, by whole pixels.
    pub(super) gaps: Vec<Range<u64>>,
    /// Live blocks too small to be drawn singly, as runs of pixels: the stream with the most bytes
    /// in a pixel has it.
    pub(super) fine: Vec<Span>,
    /// Live blocks, or parts of them, that are wide enough.
    pub(super) wide: Vec<Span>,
}

/// Pixels of a row that one stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) stream: u32,
}

/// Lays out the blocks for rows of `width` pixels.
pub(super) fn layout(blocks: &[HeapBlock], width: u64) -> Layout {
    let mut lengths: BTreeMap<u32, u64> = BTreeMap::new();
    let mut by_address: Vec<&HeapBlock> = blocks.iter().collect();
    by_address.sort_by_key(|block| (block.segment, block.offset));
    let mut gaps: Vec<(u32, Range<u64>)> = Vec::new();
    for block in by_address {
        let length = lengths.entry(block.segment).or_default();
        if block.offset > *length {
            gaps.push((block.segment, *length..block.offset));
        }
        *length = (*length).max(block.offset.saturating_add(block.size));
    }
    let segments = lengths.len();
    let mut by_length: Vec<(u32, u64)> =
        lengths.into_iter().filter(|&(_, length)| length > 0).collect();
    by_length.sort_by_key(|&(segment, length)| (std::cmp::Reverse(length), segment));
    let hidden = by_length.split_off(by_length.len().min(MAX_ROWS));
    let is_hidden = |segment: u32| hidden.iter().any(|&(hidden, _)| hidden == segment);
    let mut shown = by_length;
    shown.sort_unstable();

    let row_bytes = row_bytes(&shown);
    let mut map = Map { rows: Vec::new(), first_row: BTreeMap::new(), row_bytes, width };
    for (segment, length) in shown {
        map.add_segment(segment, length);
    }
    for (segment, gap) in &gaps {
        map.add_gap(*segment, gap);
    }
    let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0, u64::saturating_add);
    let hidden_blocks = blocks.iter().filter(|block| is_hidden(block.segment));
    Layout {
        rows: map.fill(blocks),
        row_bytes,
        segments,
        hidden: (hidden.len(), sum(&mut hidden_blocks.map(|block| block.size))),
        gap_bytes: sum(&mut gaps.iter().map(|(_, gap)| gap.end - gap.start)),
    }
}

/// The smallest power of two (or, at the end of the range, number) with which the segments fit into
/// [`MAX_ROWS`].
fn row_bytes(segments: &[(u32, u64)]) -> u64 {
    let mut row_bytes = MIN_ROW_BYTES;
    let rows = |row_bytes: u64| {
        segments.iter().map(|&(_, length)| length.div_ceil(row_bytes)).fold(0, u64::saturating_add)
    };
    while rows(row_bytes) > MAX_ROWS as u64 {
        row_bytes = row_bytes.saturating_mul(2);
    }
    row_bytes
}

struct Map {
    rows: Vec<Row>,
    /// The index of each segment's first row.
    first_row: BTreeMap<u32, usize>,
    row_bytes: u64,
    width: u64,
}

impl Map {
    fn add_segment(&mut self, segment: u32, length: u64) {
        self.first_row.insert(segment, self.rows.len());
        let mut offset = 0;
        while offset < length {
            let bytes = (length - offset).min(self.row_bytes);
            let pixels = self.pixel(bytes).max(1);
            let (gaps, fine, wide) = (Vec::new(), Vec::new(), Vec::new());
            self.rows.push(Row { segment, offset, pixels, gaps, fine, wide });
            offset += bytes;
        }
    }

    /// Adds the whole pixels of a gap to the rows that it is in.
    fn add_gap(&mut self, segment: u32, gap: &Range<u64>) {
        let Some(&first) = self.first_row.get(&segment) else { return };
        let own = self.rows[first..].iter().take_while(|row| row.segment == segment).count();
        for index in first..first + own {
            let row = self.rows[index].offset;
            let within = |offset: u64| offset.saturating_sub(row).min(self.row_bytes);
            let start = self.pixel_from(within(gap.start));
            let pixels = start..self.pixel(within(gap.end)).min(self.rows[index].pixels);
            if !pixels.is_empty() {
                self.rows[index].gaps.push(pixels);
            }
        }
    }

    /// The width in pixels of a number of bytes, rounded down.
    fn pixel(&self, bytes: u64) -> u64 {
        let pixel = u128::from(bytes) * u128::from(self.width) / u128::from(self.row_bytes);
        u64::try_from(pixel).unwrap_or(u64::MAX)
    }

    /// The width in pixels of a number of bytes, rounded up.
    fn pixel_from(&self, bytes: u64) -> u64 {
        let scaled = u128::from(bytes) * u128::from(self.width);
        u64::try_from(scaled.div_ceil(u128::from(self.row_bytes))).unwrap_or(u64::MAX)
    }

    fn fill(mut self, blocks: &[HeapBlock]) -> Vec<Row> {
        let mut cells: BTreeMap<(usize, u64), BTreeMap<u32, u64>> = BTreeMap::new();
        for block in blocks.iter().filter(|block| block.state == BlockState::Live && block.size > 0)
        {
            let Some(&first_row) = self.first_row.get(&block.segment) else { continue };
            let end = block.offset.saturating_add(block.size);
            let mut start = block.offset;
            while start < end {
                // At most MAX_ROWS rows, so the index is small.
                let row = first_row + usize::try_from(start / self.row_bytes).unwrap_or(usize::MAX);
                let row_start = start - start % self.row_bytes;
                let piece_end = end.min(row_start.saturating_add(self.row_bytes));
                let span = Span {
                    start: self.pixel(start - row_start),
                    end: self.pixel(piece_end - row_start),
                    stream: block.stream,
                };
                if span.end - span.start >= WIDE {
                    self.rows[row].wide.push(span);
                } else {
                    let last = self.rows[row].pixels - 1;
                    for x in span.start.min(last)..span.end.max(span.start + 1).min(last + 1) {
                        *cells.entry((row, x)).or_default().entry(block.stream).or_default() +=
                            piece_end - start;
                    }
                }
                start = piece_end;
            }
        }
        self.merge(cells);
        self.rows
    }

    /// Turns pixels into runs.
    fn merge(&mut self, cells: BTreeMap<(usize, u64), BTreeMap<u32, u64>>) {
        for ((row, x), streams) in cells {
            let Some((&stream, _)) = streams.iter().rev().max_by_key(|&(_, &bytes)| bytes) else {
                continue;
            };
            let fine = &mut self.rows[row].fine;
            match fine.last_mut() {
                Some(run) if run.end == x && run.stream == stream => run.end = x + 1,
                _ => fine.push(Span { start: x, end: x + 1, stream }),
            }
        }
    }
}

#[cfg(test)]
#[path = "layout/tests.rs"]
mod tests;
