//! Idle memory within free blocks of the only stream, which they have absorbed.
//!
//! A block that the only stream frees coalesces with the idle blocks beside it. The whole then
//! waits for the stream's work, although none uses the idle part. A graph needs memory that no work
//! uses, so the heap notes where the idle parts lie, and separates them again for it.
//!
//! ```text
//!   before a free    | live | idle       | live | idle    |
//!   after two        | free, of the stream                |    one block, which holds idle memory
//!   noted                   [------------)      [---------)
//! ```
//!
//! # Invariant
//! A noted range lies in free blocks of streams, or in ranges that are reserved to be extended, all
//! of them marked by [`idle_from`](super::nodes::Node::idle_from). No work has used it since it was
//! idle. Ranges are disjoint.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::nodes::{IdleFrom, SegmentId};

/// Idle ranges, by segment and end, and where each starts: most lose memory at their start.
#[derive(Debug, Default)]
pub(super) struct Absorbed(BTreeMap<(SegmentId, u64), u64>);

impl Absorbed {
    pub(super) fn note(&mut self, segment: SegmentId, start: u64, end: u64) {
        self.0.insert((segment, end), start);
    }

    /// Forgets what is noted of a range: it is used, or idle by its list. Returns where the first
    /// noted range between its end and `limit` lies.
    pub(super) fn forget(
        &mut self,
        segment: SegmentId,
        start: u64,
        end: u64,
        limit: u64,
    ) -> IdleFrom {
        let place = |from| if from < limit { IdleFrom::offset(from) } else { IdleFrom::NONE };
        loop {
            let ends = (segment, start + 1)..=(segment, u64::MAX);
            let Some((&(_, to), start_of)) = self.0.range_mut(ends).next() else {
                return IdleFrom::NONE;
            };
            let from = *start_of;
            if from >= end {
                return place(from);
            }
            let goes_on = to > end;
            if goes_on {
                *start_of = end;
            } else {
                self.0.remove(&(segment, to));
            }
            if from < start {
                self.0.insert((segment, start), from);
            }
            if goes_on {
                return place(end);
            }
        }
    }

    /// The noted parts of a range.
    pub(super) fn parts(&self, segment: SegmentId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let ends = (segment, start + 1)..=(segment, u64::MAX);
        let ranges = self.0.range(ends).map(|(&(_, to), &from)| (from.max(start), to.min(end)));
        ranges.take_while(|&(from, _)| from < end).collect()
    }

    /// Whether nothing is noted.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Host bytes of the table.
    pub(super) fn bookkeeping_bytes(&self) -> u64 {
        // A tree's nodes are a quarter empty or less, mostly.
        (self.0.len() * size_of::<((SegmentId, u64), u64)>() * 4 / 3) as u64
    }
}
