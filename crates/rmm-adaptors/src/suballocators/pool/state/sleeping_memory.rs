//! The addresses of all pools of the process that are not awake, for the suballocators above them.
//!
//! A pool that falls asleep does not know what stands above it: between the two there may be
//! adaptors, or functions of the program. So it publishes its addresses here and changes the
//! [epoch](rmm_sys::epoch), which every hit of a cache compares anyway. Every other
//! suballocator then looks once whether memory of its own is among them. One that finds some
//! refuses all requests, and looks again at each, until that memory is awake.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use rmm_core::fork;
use rmm_sys::epoch;

/// Addresses from the first to before the second.
type Range = (u64, u64);

/// By the number of the pool: its ranges, by address. Lock order: a leaf.
static RANGES: Mutex<BTreeMap<u64, Vec<Range>>> = Mutex::new(BTreeMap::new());

/// The number of the next pool that falls asleep.
static NEXT: AtomicU64 = AtomicU64::new(0);

fn ranges() -> MutexGuard<'static, BTreeMap<u64, Vec<Range>>> {
    fork::lock(&RANGES)
}

/// The memory of a pool that is not awake. It is again once this is dropped.
#[derive(Debug)]
pub(crate) struct SleepingMemory {
    number: u64,
}

impl SleepingMemory {
    /// Of a pool that holds these blocks: addresses and bytes.
    pub(crate) fn new(blocks: impl Iterator<Item = (u64, u64)>) -> Self {
        let this = Self { number: NEXT.fetch_add(1, Ordering::Relaxed) };
        this.set(blocks);
        this
    }

    /// Replaces the blocks.
    pub(crate) fn set(&self, blocks: impl Iterator<Item = (u64, u64)>) {
        ranges().insert(self.number, merged(blocks));
        // After the ranges are there: who sees the word change finds them.
        epoch::note_sleep();
    }
}

impl Drop for SleepingMemory {
    fn drop(&mut self) {
        if !fork::is_child() {
            ranges().remove(&self.number);
        }
    }
}

/// Whether one of these blocks, of which there is none that is empty, lies in memory that sleeps.
pub(crate) fn sleeps(mut blocks: impl Iterator<Item = (u64, u64)>) -> bool {
    let ranges = ranges();
    !ranges.is_empty()
        && blocks.any(|(start, bytes)| {
            ranges.values().any(|ranges| {
                let after = ranges.partition_point(|&(_, end)| end <= start);
                ranges.get(after).is_some_and(|&(begin, _)| begin < start + bytes)
            })
        })
}

/// The ranges of blocks, by address, adjacent ones as one.
pub(crate) fn merged(blocks: impl Iterator<Item = (u64, u64)>) -> Vec<Range> {
    let mut blocks: Vec<(u64, u64)> = blocks.collect();
    blocks.sort_unstable();
    let mut ranges: Vec<Range> = Vec::new();
    for (start, bytes) in blocks {
        match ranges.last_mut() {
            Some((_, end)) if *end == start => *end += bytes,
            _ => ranges.push((start, start + bytes)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_blocks_are_one_range() {
        let blocks = [(30, 10), (0, 10), (10, 5), (50, 1)];
        assert_eq!(merged(blocks.into_iter()), [(0, 15), (30, 40), (50, 51)]);
    }

    #[test]
    fn memory_sleeps_until_all_that_hold_it_are_dropped() {
        // Addresses that no device has.
        let at = |start: u64, bytes| std::iter::once((u64::MAX - 1000 + start, bytes));
        let sleeping = SleepingMemory::new(at(0, 10).chain(at(20, 10)));
        let seen = |start, bytes| sleeps(at(start, bytes));
        assert!(seen(0, 1) && seen(5, 50) && seen(15, 6) && seen(29, 1));
        assert!(!seen(10, 10) && !seen(30, 5));
        sleeping.set(at(30, 5));
        assert!(seen(30, 1) && !seen(0, 30));
        drop(sleeping);
        assert!(!seen(0, 100));
    }
}
