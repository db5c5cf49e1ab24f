//! The pending uses of an allocation: ranges of bytes, the streams that use them, and where each
//! use ends. Makes no driver calls.
#![forbid(unsafe_code)]

use std::ops::Range;

/// What a use does to the memory. Two reads need no order between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

/// How long a use goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UseKind {
    /// One piece of work, enqueued by the call that records the use.
    OneShot,
    /// All work enqueued on the stream until the use is waited for.
    Open,
}

/// A use of a range on a stream `S`, with an end marker `M`.
#[derive(Debug)]
pub(super) struct PendingUse<S, M> {
    number: u64,
    pub(super) stream: S,
    range: Range<usize>,
    access: Access,
    pub(super) kind: UseKind,
    /// Whether the end marker is after all of its work. Until then, another thread that shares the
    /// memory must not remove the use.
    has_ended: bool,
    pub(super) end: M,
}

impl<S: PartialEq, M> PendingUse<S, M> {
    /// Whether it is a one-shot use whose work may not be enqueued yet, or has no end marker of its
    /// own.
    pub(super) fn awaits_end(&self) -> bool {
        self.kind == UseKind::OneShot && !self.has_ended
    }

    fn conflicts(&self, range: &Range<usize>, access: Access) -> bool {
        let overlap = self.range.start < range.end && range.start < self.range.end;
        overlap && (self.access == Access::Write || access == Access::Write)
    }

    fn is_within(&self, range: &Range<usize>) -> bool {
        range.start <= self.range.start && self.range.end <= range.end
    }

    /// Whether a wait for this use is also a wait for a use of `range` on the same stream: every
    /// use that conflicts with that one conflicts with this one.
    fn covers(&self, range: &Range<usize>, access: Access) -> bool {
        let holds = self.range.start <= range.start && range.end <= self.range.end;
        holds && (self.access == Access::Write || access == Access::Read)
    }
}

/// The pending uses of an allocation.
///
/// Invariant: a later use that waits for all pending uses that conflict with it is ordered after
/// every earlier use that conflicts with it, recorded or removed.
#[derive(Debug)]
pub(super) struct PendingUses<S, M> {
    list: Vec<PendingUse<S, M>>,
    last_number: u64,
    /// An end marker of a removed use, for reuse: recording an event anew costs less than creating
    /// and destroying one.
    spare: Option<M>,
    /// The streams of removed uses, to be dropped outside the lock.
    removed: Vec<S>,
    /// Number of uses above which those of one stream are merged.
    merge_threshold: usize,
    /// Number of uses above which completed ones are looked for.
    pub(super) look_threshold: usize,
    /// The ranges that graphs use, for memory of which parts are freed.
    graphs: Vec<Range<usize>>,
}

impl<S, M> Default for PendingUses<S, M> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            last_number: 0,
            spare: None,
            removed: Vec::new(),
            merge_threshold: MERGE_THRESHOLD,
            look_threshold: LOOK_THRESHOLD,
            graphs: Vec::new(),
        }
    }
}

/// Number of pending uses above which those of one stream are merged, where one use that is waited
/// for is as good as another.
const MERGE_THRESHOLD: usize = 16;

/// The same for memory of which parts are freed: a merged use keeps parts that it does not use.
const MERGE_THRESHOLD_OF_PARTS: usize = 4096;

/// Number of pending uses of such memory above which completed ones are looked for.
pub(super) const LOOK_THRESHOLD: usize = 16;

/// Number of ranges that graphs use above which they are merged.
const MANY_GRAPH_RANGES: usize = 64;

impl<S: PartialEq, M> PendingUses<S, M> {
    /// For memory of which parts are freed: uses of different parts stay apart.
    pub(super) fn of_parts() -> Self {
        Self { merge_threshold: MERGE_THRESHOLD_OF_PARTS, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingUse<S, M>> {
        self.list.iter()
    }

    /// The uses that a use of `range` has to wait for.
    pub(super) fn conflicting(
        &self,
        range: &Range<usize>,
        access: Access,
    ) -> impl Iterator<Item = &PendingUse<S, M>> {
        self.list.iter().filter(move |other| other.conflicts(range, access))
    }

    /// Removes the uses within `range` that conflict with a use of all of `range`: the caller makes
    /// such a use, ordered after them, and all later uses are ordered after it.
    pub(super) fn forget_conflicting(&mut self, range: &Range<usize>, access: Access) {
        self.remove_if(|other| other.is_within(range) && other.conflicts(range, access));
    }

    fn remove_if(&mut self, is_superseded: impl Fn(&PendingUse<S, M>) -> bool) {
        for removed in self.list.extract_if(.., |other| is_superseded(other)) {
            if removed.has_ended {
                self.spare = Some(removed.end);
            }
            self.removed.push(removed.stream);
        }
    }

    /// Removes the ended uses that `is_complete` says so of.
    pub(super) fn forget_complete(&mut self, is_complete: impl Fn(&S, &M) -> bool) {
        self.remove_if(|other| other.has_ended && is_complete(&other.stream, &other.end));
    }

    /// Notes that a graph uses a range, whenever it is launched.
    pub(super) fn note_graph(&mut self, range: Range<usize>) {
        if self.graphs.contains(&range) {
            return;
        }
        self.graphs.push(range);
        if self.graphs.len() > MANY_GRAPH_RANGES {
            let start = self.graphs.iter().map(|range| range.start).min();
            let end = self.graphs.iter().map(|range| range.end).max();
            self.graphs = start.zip(end).map(|(start, end)| start..end).into_iter().collect();
        }
    }

    /// A range that a graph uses and that overlaps with `range`.
    pub(super) fn graph_over(&self, range: &Range<usize>) -> Option<&Range<usize>> {
        self.graphs.iter().find(|graph| graph.start < range.end && range.start < graph.end)
    }

    pub(super) fn forget_graphs(&mut self) {
        self.graphs.clear();
    }

    /// Ends the uses of `range` that have no end yet, for a caller who makes no other uses
    /// meanwhile. `end` makes the marker.
    ///
    /// # Errors
    /// The first of `end`.
    pub(super) fn end_all<E>(
        &mut self,
        range: &Range<usize>,
        mut end: impl FnMut(&mut S, UseKind) -> Result<M, E>,
    ) -> Result<(), E> {
        let is_meant =
            |other: &PendingUse<S, M>| !other.has_ended && other.conflicts(range, Access::Write);
        while let Some(at) = self.list.iter().position(is_meant) {
            let open = &mut self.list[at];
            let end = end(&mut open.stream, open.kind)?;
            // To the back, as in `set_end`.
            let found = self.list.remove(at);
            let kind = UseKind::OneShot;
            self.list.push(PendingUse { end, has_ended: true, kind, ..found });
        }
        Ok(())
    }

    /// The streams of removed uses. Dropping the last handle of a stream calls its watchers.
    pub(super) fn take_removed_streams(&mut self) -> Vec<S> {
        std::mem::take(&mut self.removed)
    }

    /// An end marker of a removed use.
    pub(super) fn take_spare_marker(&mut self) -> Option<M> {
        self.spare.take()
    }

    /// Records a use that is ordered after all uses that it conflicts with, and returns its number;
    /// `None` if an open use of the same stream covers it.
    pub(super) fn record(
        &mut self,
        stream: S,
        range: Range<usize>,
        access: Access,
        kind: UseKind,
        end: M,
    ) -> Option<u64> {
        if access == Access::Write {
            // A wait for this use is a wait for those, too. Concurrent reads conflict with writes
            // only, so a use that waited for a read has waited for the writes before it.
            self.forget_conflicting(&range, access);
        }
        let covers_it = |other: &PendingUse<S, M>| {
            other.kind == UseKind::Open && other.stream == stream && other.covers(&range, access)
        };
        if self.list.iter().any(covers_it) {
            self.removed.push(stream);
            return None;
        }
        // The end of a later use of the same stream is after the end of this one.
        self.remove_if(|other| {
            other.stream == stream
                && other.is_within(&range)
                && other.access == access
                && (other.has_ended || other.kind == UseKind::Open && kind == UseKind::Open)
        });
        Some(self.record_beside(stream, range, access, kind, end))
    }

    /// Records a use that replaces no other and is covered by none, and returns its number.
    pub(super) fn record_beside(
        &mut self,
        stream: S,
        range: Range<usize>,
        access: Access,
        kind: UseKind,
        end: M,
    ) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        self.list.push(PendingUse { number, stream, range, access, kind, has_ended: false, end });
        if self.list.len() > self.merge_threshold {
            self.merge();
        }
        number
    }

    /// The stream of the use with this number, if it is pending.
    pub(super) fn stream_of(&mut self, number: u64) -> Option<&mut S> {
        let found = self.list.iter_mut().find(|other| other.number == number);
        found.map(|found| &mut found.stream)
    }

    /// Sets the end of a one-shot use whose work is enqueued. The marker `end` is after the markers
    /// of its stream that were set before.
    pub(super) fn set_end(&mut self, number: u64, end: M) {
        let is_meant =
            |other: &PendingUse<S, M>| other.number == number && other.kind == UseKind::OneShot;
        if let Some(at) = self.list.iter().position(is_meant) {
            // To the back: ended uses are in the order of their markers, which `merge` relies on.
            let found = self.list.remove(at);
            self.list.push(PendingUse { end, has_ended: true, ..found });
        }
    }

    /// Merges the uses of one stream, access and kind into one, whose range spans theirs and whose
    /// end is the latest of them.
    fn merge(&mut self) {
        let mut merged: Vec<PendingUse<S, M>> = Vec::new();
        // From the back, so that the latest end markers stay.
        for older in std::mem::take(&mut self.list).into_iter().rev() {
            let alike = merged.iter_mut().find(|newer| {
                !older.awaits_end()
                    && newer.stream == older.stream
                    && newer.access == older.access
                    && newer.has_ended == older.has_ended
                    && newer.kind == older.kind
            });
            match alike {
                Some(newer) => {
                    newer.range = newer.range.start.min(older.range.start)
                        ..newer.range.end.max(older.range.end);
                    self.removed.push(older.stream);
                }
                None => merged.push(older),
            }
        }
        merged.reverse();
        self.list = merged;
    }

    /// Removes the ended uses of a stream: all later uses are ordered after their ends anyway.
    pub(super) fn forget_ended(&mut self, is_stream: impl Fn(&S) -> bool) {
        self.remove_if(|other| other.has_ended && is_stream(&other.stream));
    }
}

#[cfg(test)]
mod tests {
    use super::Access::{Read, Write};
    use super::*;

    type Streams = PendingUses<char, ()>;

    fn streams(uses: &Streams, range: Range<usize>, access: Access) -> String {
        uses.conflicting(&range, access).map(|other| other.stream).collect()
    }

    #[test]
    fn only_overlapping_uses_of_which_one_writes_conflict() {
        let mut uses = Streams::default();
        uses.record('a', 0..10, Write, UseKind::OneShot, ());
        uses.record('b', 10..20, Read, UseKind::OneShot, ());
        assert_eq!(streams(&uses, 0..10, Read), "a");
        assert_eq!(streams(&uses, 5..15, Write), "ab");
        assert_eq!(streams(&uses, 10..20, Read), "");
        assert_eq!(streams(&uses, 20..30, Write), "");
    }

    #[test]
    fn a_write_supersedes_uses_within_its_range_only() {
        let mut uses = Streams::default();
        uses.record('a', 0..10, Read, UseKind::Open, ());
        uses.record('b', 5..15, Read, UseKind::OneShot, ());
        uses.record('c', 0..10, Write, UseKind::OneShot, ());
        assert_eq!(streams(&uses, 0..20, Write), "bc");
        uses.record('d', 0..20, Read, UseKind::OneShot, ());
        assert_eq!(streams(&uses, 0..20, Write), "bcd", "a read supersedes no use");
    }

    #[test]
    fn an_open_use_is_not_replaced_by_a_one_shot_use() {
        let mut uses = PendingUses::default();
        let open = uses.record('a', 0..10, Read, UseKind::Open, 1);
        assert!(open.is_some());
        assert_eq!(uses.record('a', 2..4, Read, UseKind::OneShot, 2), None, "it is covered");
        let larger = uses.record('a', 0..20, Read, UseKind::OneShot, 3).expect("it is not covered");
        uses.set_end(larger, 4);
        uses.set_end(open.unwrap_or_default(), 5);
        let ends: Vec<i32> = uses.iter().map(|other| other.end).collect();
        assert_eq!(ends, [1, 4]);
    }

    #[test]
    fn one_thread_keeps_the_use_that_another_is_about_to_enqueue() {
        let mut uses = PendingUses::default();
        let first = uses.record('a', 0..10, Read, UseKind::OneShot, 1).expect("it is new");
        let second = uses.record('a', 0..10, Read, UseKind::OneShot, 2).expect("it is not covered");
        uses.set_end(second, 3);
        uses.forget_ended(|stream| *stream == 'a');
        let ends: Vec<i32> = uses.iter().map(|other| other.end).collect();
        assert_eq!(ends, [1], "the first may enqueue its work after the second's marker");
        uses.set_end(first, 4);
        uses.record('a', 0..10, Read, UseKind::OneShot, 5);
        let ends: Vec<i32> = uses.iter().map(|other| other.end).collect();
        assert_eq!(ends, [5], "the same stream comes after it");
    }

    #[test]
    fn many_uses_are_merged_and_none_is_lost() {
        let mut uses = PendingUses::default();
        for at in 0..100 {
            let stream = if at % 2 == 0 { 'a' } else { 'b' };
            let number = uses.record(stream, at * 10..at * 10 + 10, Write, UseKind::OneShot, at);
            uses.set_end(number.unwrap_or_default(), at);
        }
        assert!(uses.iter().count() <= MERGE_THRESHOLD + 1);
        for at in 0..100 {
            let stream = if at % 2 == 0 { 'a' } else { 'b' };
            let covered = uses
                .conflicting(&(at * 10..at * 10 + 1), Read)
                .any(|other| other.stream == stream && other.end >= at);
            assert!(covered, "use {at} is lost");
        }
    }

    #[test]
    fn merged_uses_end_at_the_marker_that_was_set_last() {
        let mut uses = PendingUses::default();
        let first = uses.record('a', 0..1, Write, UseKind::OneShot, 0).expect("it is recorded");
        let second = uses.record('a', 1..2, Write, UseKind::OneShot, 0).expect("it is recorded");
        // Two threads use one stream: the work of the second is enqueued first.
        uses.set_end(second, 1);
        uses.set_end(first, 2);
        for at in 2..=MERGE_THRESHOLD {
            uses.record('b', at..at + 1, Write, UseKind::OneShot, 3);
        }
        let first = uses.conflicting(&(0..1), Read).map(|other| other.end);
        assert_eq!(first.collect::<Vec<_>>(), [2], "the marker after both is kept");
    }

    /// Records uses on another stream, each of a range of its own, until those of stream `a` are
    /// merged.
    fn record_many(uses: &mut PendingUses<char, i32>) {
        for at in 0..=MERGE_THRESHOLD {
            let at = 1000 + 10 * at;
            uses.record('z', at..at + 1, Write, UseKind::OneShot, 0);
        }
    }

    #[test]
    fn a_write_that_is_merged_stays_a_write() {
        let mut uses = PendingUses::default();
        for (range, access) in [(0..10, Write), (20..30, Read)] {
            let number = uses.record('a', range, access, UseKind::OneShot, 0);
            uses.set_end(number.expect("it is recorded"), 1);
        }
        record_many(&mut uses);
        let waited = uses.conflicting(&(0..10), Read).map(|other| other.stream);
        assert_eq!(waited.collect::<String>(), "a", "a reader waits for the write");
    }

    #[test]
    fn uses_that_await_their_end_are_not_merged() {
        let mut uses = PendingUses::default();
        let first = uses.record('a', 0..1, Write, UseKind::OneShot, 0).expect("it is recorded");
        let second = uses.record('a', 1..2, Write, UseKind::OneShot, 0).expect("it is recorded");
        record_many(&mut uses);
        uses.set_end(second, 1);
        uses.set_end(first, 2);
        let ends = uses.conflicting(&(0..1), Read).map(|other| other.end);
        assert_eq!(ends.max(), Some(2), "the first work ends after the marker of the second");
    }

    #[test]
    fn open_uses_are_not_merged_with_one_shot_uses() {
        let mut uses = PendingUses::default();
        uses.record('a', 0..10, Read, UseKind::Open, 7);
        let once = uses.record('a', 20..30, Read, UseKind::OneShot, 0).expect("it is recorded");
        record_many(&mut uses);
        uses.set_end(once, 1);
        let ends = uses.conflicting(&(0..10), Write).map(|other| other.end);
        assert_eq!(ends.collect::<Vec<_>>(), [7], "it has no end yet");
    }

    #[test]
    fn streams_of_removed_uses_are_handed_out() {
        let mut uses = Streams::default();
        uses.record('a', 0..10, Write, UseKind::Open, ());
        uses.record('a', 2..4, Write, UseKind::OneShot, ());
        assert_eq!(uses.take_removed_streams(), ['a'], "it is covered");
        uses.record('b', 0..10, Write, UseKind::OneShot, ());
        assert_eq!(uses.take_removed_streams(), ['a']);
        uses.forget_conflicting(&(0..10), Write);
        assert_eq!(uses.take_removed_streams(), ['b']);
        assert_eq!(uses.take_removed_streams(), []);
        for at in 0..=MERGE_THRESHOLD {
            let number = uses.record('c', at..at + 1, Read, UseKind::OneShot, ());
            uses.set_end(number.expect("it is recorded"), ());
        }
        assert_eq!(uses.take_removed_streams().len() + uses.iter().count(), MERGE_THRESHOLD + 1);
    }

    #[test]
    fn the_marker_of_a_use_that_ended_and_was_superseded_is_spare() {
        let mut uses = PendingUses::default();
        let first = uses.record('a', 0..10, Read, UseKind::OneShot, 1).expect("it is recorded");
        uses.record('b', 0..10, Write, UseKind::OneShot, 2);
        assert_eq!(uses.take_spare_marker(), None, "use {first} may still get its end");
        let second = uses.record('b', 0..10, Write, UseKind::OneShot, 3).expect("it is recorded");
        uses.set_end(second, 4);
        uses.record('c', 0..10, Write, UseKind::OneShot, 5);
        assert_eq!(uses.take_spare_marker(), Some(4));
        assert_eq!(uses.take_spare_marker(), None, "it is taken");
    }

    #[test]
    fn a_use_recorded_beside_others_replaces_none() {
        let mut uses = Streams::default();
        let first = uses.record('a', 0..10, Write, UseKind::OneShot, ()).expect("it is recorded");
        uses.set_end(first, ());
        uses.record_beside('b', 0..10, Write, UseKind::OneShot, ());
        assert_eq!(streams(&uses, 0..10, Read), "ab");
    }
}
