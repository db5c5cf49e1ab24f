//! Who touched which byte last: for every range, the last write and the reads since.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::model::operation::Operation;
use crate::model::violation::Access;

/// Bytes with one history.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    end: usize,
    /// The last write, hand-out or take-back.
    pub(crate) write: Option<Arc<Access>>,
    /// The reads since, one of each stream: the last.
    reads: Vec<Arc<Access>>,
    /// The atomic updates since, one of each stream: the last.
    updates: Vec<Arc<Access>>,
    /// Whether somebody has written here since it was handed out.
    pub(crate) is_initialised: bool,
}

impl Segment {
    fn new(end: usize, write: Option<Arc<Access>>, is_initialised: bool) -> Self {
        Self { end, write, reads: Vec::new(), updates: Vec::new(), is_initialised }
    }

    /// The accesses that another one must come after: a write after all, a read after the writes
    /// and updates, an update after all but updates.
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

/// Segments by their start; they do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Shadow(BTreeMap<usize, Segment>);

impl Shadow {
    /// What is known of a range.
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

    /// Forgets a range.
    pub(crate) fn clear(&mut self, range: &Range<usize>) {
        self.cut(range.start);
        self.cut(range.end);
        let inside: Vec<usize> = self.0.range(range.clone()).map(|(&start, _)| start).collect();
        for start in inside {
            self.0.remove(&start);
        }
    }

    /// A write, hand-out or take-back, which all that came before is ordered before now.
    pub(crate) fn write(&mut self, range: &Range<usize>, access: Arc<Access>) {
        self.clear(range);
        let is_initialised = access.operation == Operation::Write;
        self.0.insert(range.start, Segment::new(range.end, Some(access), is_initialised));
    }

    /// A read or an atomic update, ordered after what it has to be.
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
            // Nothing is known of what was there before: memory that the program brought along.
            let mut segment = Segment::new(gap.end, None, true);
            segment.add(access);
            self.0.insert(gap.start, segment);
        }
    }

    /// Makes a segment end at `at` if one reaches over it.
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
        let (stream, backtrace) = (Some(stream), None);
        Arc::new(Access { operation, what: "test", stream, position: 1, also, backtrace })
    }

    fn told(shadow: &Shadow, range: Range<usize>) -> Vec<(Range<usize>, Option<u64>, usize)> {
        let tell = |(at, segment): (Range<usize>, &Segment)| {
            (at, segment.write.as_ref().and_then(|write| write.stream), segment.reads.len())
        };
        shadow.over(&range).map(tell).collect()
    }

    #[test]
    fn histories_are_cut_where_accesses_begin_and_end() {
        let mut shadow = Shadow::default();
        shadow.write(&(0..100), access(Operation::Write, 1));
        shadow.write(&(40..60), access(Operation::Write, 2));
        shadow.share(&(50..120), &access(Operation::Read, 3));
        shadow.share(&(55..110), &access(Operation::Read, 3));
        assert_eq!(
            told(&shadow, 0..200),
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
        assert_eq!(told(&shadow, 45..52), [(45..50, Some(2), 0), (50..52, Some(2), 1)]);
        shadow.clear(&(10..115));
        assert_eq!(told(&shadow, 0..200), [(0..10, Some(1), 0), (115..120, None, 1)]);
    }
}
