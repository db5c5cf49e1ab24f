//! A report of an arena's memory, for display.

#![forbid(unsafe_code)]

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use rmm_core::{Error, StreamId, format_bytes};

/// A snapshot of an arena resource's memory. [`Display`](fmt::Display) writes a few lines.
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
    /// The arena of each stream.
    pub arenas: Vec<ArenaOfStream>,
}

/// The arena of one stream in an [`ArenaReport`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ArenaOfStream {
    /// The stream.
    pub stream: StreamId,
    /// The number of its superblocks.
    pub superblocks: usize,
    /// Bytes of live blocks in them.
    pub live_bytes: u64,
    /// Free bytes in them.
    pub free_bytes: u64,
}

impl ArenaReport {
    /// The number of superblocks of all arenas.
    pub fn superblocks(&self) -> usize {
        self.arenas.iter().map(|arena| arena.superblocks).sum()
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
        writeln!(f, "superblocks: {}", self.superblocks())?;
        writeln!(f, "total free: {}", format_bytes(self.total_free))?;
        writeln!(f, "largest free: {}", format_bytes(self.largest_free))?;
        write!(f, "fragmentation: {:.1} %", self.fragmentation())?;
        for arena in &self.arenas {
            let (live, free) = (format_bytes(arena.live_bytes), format_bytes(arena.free_bytes));
            let count = arena.superblocks;
            write!(
                f,
                "\nstream {}: superblocks: {count}, live: {live}, free: {free}",
                arena.stream
            )?;
        }
        Ok(())
    }
}

/// Bytes of the longest contiguous range of free blocks, each given as start and size.
pub(super) fn longest_run(mut free: Vec<(u64, u64)>) -> u64 {
    free.sort_unstable();
    let (mut longest, mut run, mut end) = (0, 0, None);
    for (start, bytes) in free {
        run = if end == Some(start) { run + bytes } else { bytes };
        end = Some(start + bytes);
        longest = run.max(longest);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_arena_is_not_fragmented() {
        let full = ArenaReport {
            arena_size: 1 << 20,
            live_bytes: 1 << 20,
            total_free: 0,
            largest_free: 0,
            arenas: Vec::new(),
        };
        assert!(full.fragmentation().abs() < f64::EPSILON);
        let halves = ArenaReport { total_free: 1 << 10, largest_free: 1 << 8, ..full };
        assert!((halves.fragmentation() - 75.0).abs() < f64::EPSILON);
    }

    #[test]
    fn adjacent_free_blocks_are_one_range() {
        assert_eq!(longest_run(Vec::new()), 0);
        assert_eq!(longest_run(vec![(30, 5), (0, 10), (10, 10), (40, 19)]), 20);
    }
}
