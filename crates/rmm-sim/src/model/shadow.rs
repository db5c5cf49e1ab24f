//! Shadow memory: for every range of bytes, the last write and the reads and atomic updates since.
//!
//! As in `FastTrack` and `ThreadSanitizer`, an access is compared with these only: every earlier
//! access was ordered before the last write, or has been reported.
//!
//! ```text
//! bytes      0               40          50          60             100
//! segments   | write: a1     | write: b1 | write: b1 | write: a1    |
//!            |               |           | reads: c1 |              |
//! ```
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::model::operation::Operation;
use crate::model::violation::Access;

/// A range of bytes with the same history.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    end: usize,
    /// The last write, allocation or free.
    pub(crate) write: Option<Arc<Access>>,
    /// The reads since, the last one of each stream.
    reads: Vec<Arc<Access>>,
    /// The atomic updates since, the last one of each stream.
    updates: Vec<Arc<Access>>,
    /// Whether the bytes were written since they were allocated.
    pub(crate) is_initialised: bool,
}

impl Segment {
    fn new(end: usize, write: Option<Arc<Access>>, is_initialised: bool) -> Self {
        Self { end, write, reads: Vec::new(), updates: Vec::new(), is_initialised }
    }

    /// The accesses that conflict with an operation, and must happen before it: for a write all,
    /// for a read the write and updates, for an update all but updates.
    pub(crate) fn before(&self, operation: Operation) -> impl Iterator<Item = &Arc<Access>> {
        let reads = if operation == Operation::Read { &[][..] } else { &self.reads };
        let updates = if operation == Operation::Update { &[][..] } else { &self.updates };
        self.write.iter().chain(reads).chain(updates)
    }

    fn add(&mut self, access: &Arc<Access>) {
        self.is_initialised |= access.operation == Operation::Update;
        let others =
            if access.operation == Operation::Read { &mut self.reads } else { &mut self.updates };
        others.retain(|other| other.stream != access.stream);
        others.push(Arc::clone(access));
    }
}

/// Segments by start; they do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Shadow(BTreeMap<usize, Segment>);

impl Shadow {
    /// The segments of a range.
    pub(crate) fn over(
        &self,
        range: &Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, &Segment)> {
        let (start, end) = (range.start, range.end);
        let from = self.0.range(..=start).next_back().map_or(start, |(&from, _)| from);
        self.0
            .range(from..end)
            .filter(move |(_, segment)| segment.end > start)
            .map(move |(&at, segment)| (at.max(start)..segment.end.min(end), segment))
    }

    /// Removes the history of a range.
    pub(crate) fn clear(&mut self, range: &Range<usize>) {
        self.cut(range.start);
        self.cut(range.end);
        let inside: Vec<usize> = self.0.range(range.clone()).map(|(&start, _)| start).collect();
        for start in inside {
            self.0.remove(&start);
        }
    }

    /// Records a write, allocation or free, which replaces the history: all conflicts are checked.
    pub(crate) fn write(&mut self, range: &Range<usize>, access: Arc<Access>) {
        self.clear(range);
        let is_initialised = access.operation == Operation::Write;
        self.0.insert(range.start, Segment::new(range.end, Some(access), is_initialised));
    }

    /// Records a read or an atomic update beside others.
    pub(crate) fn share(&mut self, range: &Range<usize>, access: &Arc<Access>) {
        self.cut(range.start);
        self.cut(range.end);
        let mut gaps = Vec::new();
        let mut at = range.start;
        for (&start, segment) in self.0.range_mut(range.clone()) {
            if at < start {
                gaps.push(at..start);
            }
            at = segment.end;
            segment.add(access);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        for gap in gaps {
            // Memory without a history, which the program allocated by other means.
            let mut segment = Segment::new(gap.end, None, true);
            segment.add(access);
            self.0.insert(gap.start, segment);
        }
    }

    /// Splits a segment at `at`.
    fn cut(&mut self, at: usize) {
        let Some((_, before)) = self.0.range_mut(..at).next_back() else { return };
        if before.end > at {
            let rest = before.clone();
            before.end = at;
            self.0.insert(at, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(operation: Operation, stream: u64) -> Arc<Access> {
        let also = Vec::new();
        Arc::new(Access {
            operation,
            what: "test",
            stream: Some(stream),
            stream_name: None,
            position: 1,
            also,
            is_refused: false,
            memory_name: None,
            backtrace: None,
            python: None,
        })
    }

    fn segments(shadow: &Shadow, range: Range<usize>) -> Vec<(Range<usize>, Option<u64>, usize)> {
        let summary = |(at, segment): (Range<usize>, &Segment)| {
            (at, segment.write.as_ref().and_then(|write| write.stream), segment.reads.len())
        };
        shadow.over(&range).map(summary).collect()
    }

    #[test]
    fn segments_are_split_where_accesses_begin_and_end() {
        let mut shadow = Shadow::default();
        shadow.write(&(0..100), access(Operation::Write, 1));
        shadow.write(&(40..60), access(Operation::Write, 2));
        shadow.share(&(50..120), &access(Operation::Read, 3));
        shadow.share(&(55..110), &access(Operation::Read, 3));
        assert_eq!(
            segments(&shadow, 0..200),
            [
                (0..40, Some(1), 0),
                (40..50, Some(2), 0),
                (50..55, Some(2), 1),
                (55..60, Some(2), 1),
                (60..100, Some(1), 1),
                (100..110, None, 1),
                (110..120, None, 1),
            ]
        );
        assert_eq!(segments(&shadow, 45..52), [(45..50, Some(2), 0), (50..52, Some(2), 1)]);
        shadow.clear(&(10..115));
        assert_eq!(segments(&shadow, 0..200), [(0..10, Some(1), 0), (115..120, None, 1)]);
    }
}
