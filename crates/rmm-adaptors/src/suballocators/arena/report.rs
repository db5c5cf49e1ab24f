//! A report of an arena's memory, for display.

#![forbid(unsafe_code)]

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use rmm_core::{Error, format_bytes};

use crate::PoolBlock;

/// A snapshot of an arena's memory. [`Display`](fmt::Display) writes a few lines.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ArenaReport {
    /// Bytes allocated from upstream.
    pub arena_size: u64,
    /// Bytes of live blocks.
    pub live_bytes: u64,
    /// Free bytes, including those that the device may still use.
    pub total_free: u64,
    /// Bytes of the longest contiguous free range.
    pub largest_free: u64,
}

impl ArenaReport {
    /// The report of an arena with these blocks, by segment and address.
    pub(super) fn of(blocks: &[PoolBlock]) -> Self {
        let bytes = |is_live: bool| {
            blocks.iter().filter(|block| block.is_live == is_live).map(|block| block.size).sum()
        };
        let (live_bytes, total_free): (u64, u64) = (bytes(true), bytes(false));
        let arena_size = live_bytes + total_free;
        Self { arena_size, live_bytes, total_free, largest_free: longest_run(blocks) }
    }

    /// Fragmentation in percent: the share of free memory outside the largest free range; 0 if
    /// nothing is free.
    pub fn fragmentation(&self) -> f64 {
        if self.total_free == 0 {
            return 0.0;
        }
        let scattered = self.total_free - self.largest_free.min(self.total_free);
        #[expect(clippy::cast_precision_loss, reason = "a percentage of bytes is no exact number")]
        let percent = scattered as f64 * 100.0 / self.total_free as f64;
        percent
    }

    /// Appends the report to a file, with the error that caused it.
    pub(super) fn append(&self, path: &Path, error: &Error) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{error}\n{self}\n").as_bytes())
    }
}

impl fmt::Display for ArenaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "arena size: {}", format_bytes(self.arena_size))?;
        writeln!(f, "live: {}", format_bytes(self.live_bytes))?;
        writeln!(f, "total free: {}", format_bytes(self.total_free))?;
        writeln!(f, "largest free: {}", format_bytes(self.largest_free))?;
        write!(f, "fragmentation: {:.1} %", self.fragmentation())
    }
}

/// Bytes of the longest range of free blocks without a gap.
fn longest_run(blocks: &[PoolBlock]) -> u64 {
    let (mut longest, mut run, mut end) = (0, 0, None);
    for block in blocks.iter().filter(|block| !block.is_live) {
        let start = (block.segment, block.offset);
        run = if end == Some(start) { run + block.size } else { block.size };
        end = Some((block.segment, block.offset + block.size));
        longest = run.max(longest);
    }
    longest
}

#[cfg(test)]
mod tests {
    use rmm_core::DevicePtr;

    use super::*;

    /// A map of blocks, each by segment, offset, bytes, and whether it is live.
    fn report(blocks: &[(usize, u64, u64, bool)]) -> ArenaReport {
        let blocks = blocks.iter().map(|&(segment, offset, size, is_live)| PoolBlock {
            segment,
            segment_base: DevicePtr(segment as u64 * 100),
            offset,
            size,
            is_live,
            owner: None,
            owner_handle: None,
        });
        ArenaReport::of(&blocks.collect::<Vec<_>>())
    }

    #[test]
    fn a_full_arena_is_not_fragmented() {
        let full = report(&[(0, 0, 100, true)]);
        assert_eq!((full.arena_size, full.total_free), (100, 0));
        assert!(full.fragmentation().abs() < f64::EPSILON);
        let quarter = report(&[(0, 0, 25, false), (0, 25, 25, true), (1, 0, 75, false)]);
        assert_eq!((quarter.live_bytes, quarter.largest_free), (25, 75));
        assert!((quarter.fragmentation() - 25.0).abs() < f64::EPSILON);
    }

    #[test]
    fn adjacent_free_blocks_of_a_segment_are_one_range() {
        assert_eq!(report(&[]).largest_free, 0);
        let free = [(0, 0, 10, false), (0, 10, 10, false), (0, 30, 5, false), (1, 35, 16, false)];
        assert_eq!(report(&free).largest_free, 20);
        let apart = report(&[(0, 0, 100, false), (1, 0, 100, false)]);
        assert_eq!(apart.largest_free, 100, "no block spans two segments");
    }
}
