//! Which uses of memory are outstanding: bookkeeping over ranges and streams.
#![forbid(unsafe_code)]

use std::ops::Range;

/// What is done to memory. Two reads need no order between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

/// How long a use goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lasts {
    /// One piece of work, which is enqueued by the call that notes it.
    Once,
    /// Whatever is enqueued on the stream until somebody has to wait for it.
    On,
}

/// A use of a range on a stream `S`. `M` says where on the stream it ends.
#[derive(Debug)]
pub(super) struct Use<S, M> {
    number: u64,
    pub(super) stream: S,
    range: Range<usize>,
    access: Access,
    pub(super) lasts: Lasts,
    /// Whether the mark is behind all of its work. Others who share the memory must not take it off
    /// the list before.
    is_over: bool,
    pub(super) mark: M,
}

impl<S: PartialEq, M> Use<S, M> {
    /// Whether it lasts once, and its work may not be enqueued yet or have no mark of its own.
    pub(super) fn is_pending(&self) -> bool {
        self.lasts == Lasts::Once && !self.is_over
    }

    fn conflicts(&self, range: &Range<usize>, access: Access) -> bool {
        let overlap = self.range.start < range.end && range.start < self.range.end;
        overlap && (self.access == Access::Write || access == Access::Write)
    }

    fn is_within(&self, range: &Range<usize>) -> bool {
        range.start <= self.range.start && self.range.end <= range.end
    }

    /// Whether whoever waits for this use has waited for that one too.
    fn covers(&self, range: &Range<usize>, access: Access) -> bool {
        let holds = self.range.start <= range.start && range.end <= self.range.end;
        holds && (self.access == Access::Write || access == Access::Read)
    }
}

/// The outstanding uses. None is ever forgotten that a later use, in conflict with it, would not be
/// ordered behind by waiting for those that are kept.
#[derive(Debug)]
pub(super) struct Uses<S, M> {
    list: Vec<Use<S, M>>,
    last: u64,
    /// A mark that nobody needs any more, to be set anew: to make one and to destroy it costs more
    /// than to set it.
    spare: Option<M>,
    /// The streams of uses that are off the list.
    gone: Vec<S>,
}

impl<S, M> Default for Uses<S, M> {
    fn default() -> Self {
        Self { list: Vec::new(), last: 0, spare: None, gone: Vec::new() }
    }
}

/// Uses beyond which those of one stream are told apart no longer.
const DETAILED: usize = 16;

impl<S: PartialEq, M> Uses<S, M> {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Use<S, M>> {
        self.list.iter()
    }

    /// The uses that one has to be ordered behind.
    pub(super) fn conflicting(
        &self,
        range: &Range<usize>,
        access: Access,
    ) -> impl Iterator<Item = &Use<S, M>> {
        self.list.iter().filter(move |other| other.conflicts(range, access))
    }

    /// Forgets the uses within `range` that conflict with a use of all of it: everybody to come is
    /// ordered behind that one, which is behind them.
    pub(super) fn settle(&mut self, range: &Range<usize>, access: Access) {
        self.take_off(|other| other.is_within(range) && other.conflicts(range, access));
    }

    /// Takes uses off the list.
    fn take_off(&mut self, is_superseded: impl Fn(&Use<S, M>) -> bool) {
        for gone in self.list.extract_if(.., |other| is_superseded(other)) {
            if gone.is_over {
                self.spare = Some(gone.mark);
            }
            self.gone.push(gone.stream);
        }
    }

    /// The streams of uses that are off the list, to be dropped where that may call whoever watches
    /// them.
    pub(super) fn take_gone(&mut self) -> Vec<S> {
        std::mem::take(&mut self.gone)
    }

    /// A mark that was set for a use which is off the list.
    pub(super) fn take_spare(&mut self) -> Option<M> {
        self.spare.take()
    }

    /// Notes a use that is ordered behind all that it conflicts with, and returns its number, or
    /// `None` if it is covered by one that goes on.
    pub(super) fn note(
        &mut self,
        stream: S,
        range: Range<usize>,
        access: Access,
        lasts: Lasts,
        mark: M,
    ) -> Option<u64> {
        if access == Access::Write {
            // Whoever is ordered behind this one is behind them too. Those who read beside it were
            // behind them by themselves.
            self.settle(&range, access);
        }
        let goes_on = |other: &Use<S, M>| {
            other.lasts == Lasts::On && other.stream == stream && other.covers(&range, access)
        };
        if self.list.iter().any(goes_on) {
            self.gone.push(stream);
            return None;
        }
        // The mark of a later use of the same stream is behind this one's.
        self.take_off(|other| {
            other.stream == stream
                && other.is_within(&range)
                && other.access == access
                && (other.is_over || other.lasts == Lasts::On && lasts == Lasts::On)
        });
        Some(self.note_beside(stream, range, access, lasts, mark))
    }

    /// Notes a use that nobody is ordered behind by waiting for another, nor the other way round,
    /// and returns its number.
    pub(super) fn note_beside(
        &mut self,
        stream: S,
        range: Range<usize>,
        access: Access,
        lasts: Lasts,
        mark: M,
    ) -> u64 {
        self.last += 1;
        let number = self.last;
        self.list.push(Use { number, stream, range, access, lasts, is_over: false, mark });
        if self.list.len() > DETAILED {
            self.merge();
        }
        number
    }

    /// The stream of the use with this number, if it is on the list.
    pub(super) fn stream_of(&mut self, number: u64) -> Option<&mut S> {
        let found = self.list.iter_mut().find(|other| other.number == number);
        found.map(|found| &mut found.stream)
    }

    /// The work of a use that lasts once is enqueued, before `mark`, which is behind all marks of
    /// its stream that were set before.
    pub(super) fn set_mark(&mut self, number: u64, mark: M) {
        let is_meant = |other: &Use<S, M>| other.number == number && other.lasts == Lasts::Once;
        if let Some(at) = self.list.iter().position(is_meant) {
            // Among the uses that are over the order of the list is that of their marks: `merge`
            // relies on it.
            let found = self.list.remove(at);
            self.list.push(Use { mark, is_over: true, ..found });
        }
    }

    /// Joins the uses of one kind on one stream to one, which ends where the last of them does and
    /// takes in what is between.
    fn merge(&mut self) {
        let mut merged: Vec<Use<S, M>> = Vec::new();
        // From the last one on, so that the marks that stay are the latest.
        for older in std::mem::take(&mut self.list).into_iter().rev() {
            let alike = merged.iter_mut().find(|newer| {
                !older.is_pending()
                    && newer.stream == older.stream
                    && newer.access == older.access
                    && newer.is_over == older.is_over
                    && newer.lasts == older.lasts
            });
            match alike {
                Some(newer) => {
                    newer.range = newer.range.start.min(older.range.start)
                        ..newer.range.end.max(older.range.end);
                    self.gone.push(older.stream);
                }
                None => merged.push(older),
            }
        }
        merged.reverse();
        self.list = merged;
    }

    /// Forgets the uses on a stream whose marks everybody to come is ordered behind anyway.
    pub(super) fn forget_over(&mut self, is_stream: impl Fn(&S) -> bool) {
        self.take_off(|other| other.is_over && is_stream(&other.stream));
    }
}

#[cfg(test)]
mod tests {
    use super::Access::{Read, Write};
    use super::*;

    type Streams = Uses<char, ()>;

    fn streams(uses: &Streams, range: Range<usize>, access: Access) -> String {
        uses.conflicting(&range, access).map(|other| other.stream).collect()
    }

    #[test]
    fn only_overlapping_uses_of_which_one_writes_conflict() {
        let mut uses = Streams::default();
        uses.note('a', 0..10, Write, Lasts::Once, ());
        uses.note('b', 10..20, Read, Lasts::Once, ());
        assert_eq!(streams(&uses, 0..10, Read), "a");
        assert_eq!(streams(&uses, 5..15, Write), "ab");
        assert_eq!(streams(&uses, 10..20, Read), "");
        assert_eq!(streams(&uses, 20..30, Write), "");
    }

    #[test]
    fn a_write_supersedes_what_lies_within_it_and_nothing_else() {
        let mut uses = Streams::default();
        uses.note('a', 0..10, Read, Lasts::On, ());
        uses.note('b', 5..15, Read, Lasts::Once, ());
        uses.note('c', 0..10, Write, Lasts::Once, ());
        assert_eq!(streams(&uses, 0..20, Write), "bc");
        uses.note('d', 0..20, Read, Lasts::Once, ());
        assert_eq!(streams(&uses, 0..20, Write), "bcd", "a read excludes nobody");
    }

    #[test]
    fn a_use_that_goes_on_is_not_replaced_by_one_that_does_not() {
        let mut uses = Uses::default();
        let on = uses.note('a', 0..10, Read, Lasts::On, 1);
        assert!(on.is_some());
        assert_eq!(uses.note('a', 2..4, Read, Lasts::Once, 2), None, "it is covered");
        let larger = uses.note('a', 0..20, Read, Lasts::Once, 3).expect("it is not covered");
        uses.set_mark(larger, 4);
        uses.set_mark(on.unwrap_or_default(), 5);
        let marks: Vec<i32> = uses.iter().map(|other| other.mark).collect();
        assert_eq!(marks, [1, 4]);
    }

    #[test]
    fn one_thread_does_not_forget_what_another_is_about_to_enqueue() {
        let mut uses = Uses::default();
        let first = uses.note('a', 0..10, Read, Lasts::Once, 1).expect("it is new");
        let second = uses.note('a', 0..10, Read, Lasts::Once, 2).expect("it is not covered");
        uses.set_mark(second, 3);
        uses.forget_over(|stream| *stream == 'a');
        let marks: Vec<i32> = uses.iter().map(|other| other.mark).collect();
        assert_eq!(marks, [1], "the first may enqueue its work after the second's mark");
        uses.set_mark(first, 4);
        uses.note('a', 0..10, Read, Lasts::Once, 5);
        let marks: Vec<i32> = uses.iter().map(|other| other.mark).collect();
        assert_eq!(marks, [5], "the same stream comes after it");
    }

    #[test]
    fn many_uses_are_merged_and_none_is_lost() {
        let mut uses = Uses::default();
        for at in 0..100 {
            let stream = if at % 2 == 0 { 'a' } else { 'b' };
            let number = uses.note(stream, at * 10..at * 10 + 10, Write, Lasts::Once, at);
            uses.set_mark(number.unwrap_or_default(), at);
        }
        assert!(uses.iter().count() <= DETAILED + 1);
        for at in 0..100 {
            let stream = if at % 2 == 0 { 'a' } else { 'b' };
            let covered = uses
                .conflicting(&(at * 10..at * 10 + 1), Read)
                .any(|other| other.stream == stream && other.mark >= at);
            assert!(covered, "use {at} is lost");
        }
    }

    #[test]
    fn uses_that_are_merged_end_where_the_last_mark_was_set() {
        let mut uses = Uses::default();
        let first = uses.note('a', 0..1, Write, Lasts::Once, 0).expect("it is noted");
        let second = uses.note('a', 1..2, Write, Lasts::Once, 0).expect("it is noted");
        // Two threads use one stream: the work of the second is enqueued first.
        uses.set_mark(second, 1);
        uses.set_mark(first, 2);
        for at in 2..=DETAILED {
            uses.note('b', at..at + 1, Write, Lasts::Once, 3);
        }
        let first = uses.conflicting(&(0..1), Read).map(|other| other.mark);
        assert_eq!(first.collect::<Vec<_>>(), [2], "the mark behind both is kept");
    }

    /// Notes uses on another stream, each at a place of its own, until those of stream `a` are
    /// merged.
    fn note_many(uses: &mut Uses<char, i32>) {
        for at in 0..=DETAILED {
            let at = 1000 + 10 * at;
            uses.note('z', at..at + 1, Write, Lasts::Once, 0);
        }
    }

    #[test]
    fn a_write_that_is_merged_stays_a_write() {
        let mut uses = Uses::default();
        for (range, access) in [(0..10, Write), (20..30, Read)] {
            let number = uses.note('a', range, access, Lasts::Once, 0).expect("it is noted");
            uses.set_mark(number, 1);
        }
        note_many(&mut uses);
        let waited = uses.conflicting(&(0..10), Read).map(|other| other.stream);
        assert_eq!(waited.collect::<String>(), "a", "a reader waits for the write");
    }

    #[test]
    fn work_that_is_still_to_be_enqueued_is_not_merged_with_other_work() {
        let mut uses = Uses::default();
        let first = uses.note('a', 0..1, Write, Lasts::Once, 0).expect("it is noted");
        let second = uses.note('a', 1..2, Write, Lasts::Once, 0).expect("it is noted");
        note_many(&mut uses);
        uses.set_mark(second, 1);
        uses.set_mark(first, 2);
        let marks = uses.conflicting(&(0..1), Read).map(|other| other.mark);
        assert_eq!(marks.max(), Some(2), "the first work comes behind the mark of the second");
    }

    #[test]
    fn a_use_that_goes_on_is_not_merged_with_one_that_does_not() {
        let mut uses = Uses::default();
        uses.note('a', 0..10, Read, Lasts::On, 7);
        let once = uses.note('a', 20..30, Read, Lasts::Once, 0).expect("it is noted");
        note_many(&mut uses);
        uses.set_mark(once, 1);
        let marks = uses.conflicting(&(0..10), Write).map(|other| other.mark);
        assert_eq!(marks.collect::<Vec<_>>(), [7], "it has no mark yet");
    }

    #[test]
    fn streams_of_uses_off_the_list_are_handed_out() {
        let mut uses = Streams::default();
        uses.note('a', 0..10, Write, Lasts::On, ());
        uses.note('a', 2..4, Write, Lasts::Once, ());
        assert_eq!(uses.take_gone(), ['a'], "it is covered");
        uses.note('b', 0..10, Write, Lasts::Once, ());
        assert_eq!(uses.take_gone(), ['a']);
        uses.settle(&(0..10), Write);
        assert_eq!(uses.take_gone(), ['b']);
        assert_eq!(uses.take_gone(), []);
        for at in 0..=DETAILED {
            let number = uses.note('c', at..at + 1, Read, Lasts::Once, ()).expect("it is noted");
            uses.set_mark(number, ());
        }
        assert_eq!(uses.take_gone().len() + uses.iter().count(), DETAILED + 1);
    }

    #[test]
    fn a_mark_is_spare_when_its_use_is_over_and_superseded() {
        let mut uses = Uses::default();
        let first = uses.note('a', 0..10, Read, Lasts::Once, 1).expect("it is noted");
        uses.note('b', 0..10, Write, Lasts::Once, 2);
        assert_eq!(uses.take_spare(), None, "work may still be about to be marked: {first}");
        let second = uses.note('b', 0..10, Write, Lasts::Once, 3).expect("it is noted");
        uses.set_mark(second, 4);
        uses.note('c', 0..10, Write, Lasts::Once, 5);
        assert_eq!(uses.take_spare(), Some(4));
        assert_eq!(uses.take_spare(), None, "it is taken");
    }

    #[test]
    fn what_is_noted_beside_others_replaces_none() {
        let mut uses = Streams::default();
        let first = uses.note('a', 0..10, Write, Lasts::Once, ()).expect("it is noted");
        uses.set_mark(first, ());
        uses.note_beside('b', 0..10, Write, Lasts::Once, ());
        assert_eq!(streams(&uses, 0..10, Read), "ab");
    }
}
