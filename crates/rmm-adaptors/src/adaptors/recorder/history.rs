//! What a recorder knows, as the rows of a log.

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use rmm_core::DevicePtr;

use super::clock;
use super::ring::Event;
use crate::adaptors::logging::{Action, Columns, DeviceColumn, Line, Row};
use crate::adaptors::tagged::Tag;
use crate::shared::site::Site;

/// A block that was allocated before the first event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) pointer: DevicePtr,
    pub(super) bytes: u64,
    pub(super) stream: u64,
    pub(super) tag: Tag,
    pub(super) site: Site,
}

/// The last events, and the blocks that were live before them, the largest first.
#[derive(Debug)]
pub(super) struct History {
    pub(super) before: Vec<Before>,
    pub(super) events: Vec<Event>,
    columns: Columns,
}

impl History {
    /// `live` are the blocks that were live before `events` were read. The others that were live
    /// before the first event are those that it or a later one frees.
    pub(super) fn new(live: Vec<Before>, events: Vec<Event>, device: Option<usize>) -> Self {
        let mut met = HashSet::new();
        let mut before = Vec::new();
        let of_blocks = events.iter().filter(|event| event.action != Action::Failure);
        for event in of_blocks {
            if met.insert(event.pointer) && event.action == Action::Free {
                let Event { pointer, bytes, stream, tag, site, .. } = *event;
                before.push(Before { pointer, bytes, stream, tag, site });
            }
        }
        before.extend(live.into_iter().filter(|block| !met.contains(&block.pointer)));
        before.sort_by_key(|block| (Reverse(block.bytes), block.pointer.0));
        let columns = Columns { tag: true, site: true, device: DeviceColumn::Of(device) };
        Self { before, events, columns }
    }

    /// Leaves out the oldest events and the smallest blocks before them whose rows do not fit into
    /// half of `most_bytes` each. Returns whether any were.
    pub(super) fn cut(&mut self, most_bytes: usize) -> bool {
        let rows = self.events.iter().rev().map(|event| self.row(event).len());
        let cut_events = self.events.len() - fitting(rows, most_bytes / 2);
        if cut_events > 0 {
            let gone: Vec<Event> = self.events.drain(..cut_events).collect();
            self.apply(&gone);
        }
        let rows = self.before.iter().map(|block| self.row_before(block, 0).len());
        let kept = fitting(rows, most_bytes / 2);
        let cuts_blocks = kept < self.before.len();
        self.before.truncate(kept);
        cut_events > 0 || cuts_blocks
    }

    /// Applies events that are left out to the blocks before the others.
    fn apply(&mut self, gone: &[Event]) {
        let before = self.before.drain(..).map(|block| (block.pointer, block));
        let mut before: HashMap<DevicePtr, Before> = before.collect();
        for event in gone {
            let Event { pointer, bytes, stream, tag, site, .. } = *event;
            match event.action {
                Action::Allocate => {
                    before.insert(pointer, Before { pointer, bytes, stream, tag, site });
                }
                Action::Free => {
                    before.remove(&pointer);
                }
                Action::Failure => {}
            }
        }
        self.before = before.into_values().collect();
        self.before.sort_by_key(|block| (Reverse(block.bytes), block.pointer.0));
    }

    /// Writes a log with all columns. The blocks before are rows of allocations by thread 0.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        writeln!(to, "{}", self.columns.header())?;
        let start = self.events.first().map_or_else(clock::now, |event| event.time);
        for block in &self.before {
            to.write_all(&self.row_before(block, start))?;
        }
        for event in &self.events {
            to.write_all(&self.row(event))?;
        }
        let mut mark = Line::end_mark().open();
        self.columns.finish(&mut mark, None, Site::NONE);
        to.write_all(&mark)?;
        to.flush()
    }

    fn row_before(&self, block: &Before, time: u64) -> Vec<u8> {
        let Before { pointer, bytes, stream, tag, site } = *block;
        let action = Action::Allocate;
        let row = Row { thread: 0, time: clock::of_day(time), action, pointer, bytes, stream };
        let mut line = Line::of(&row).open();
        self.columns.finish(&mut line, Some(tag), site);
        line
    }

    fn row(&self, event: &Event) -> Vec<u8> {
        let Event { action, pointer, bytes, stream, time, thread, tag, site } = *event;
        let (thread, time) = (thread.into(), clock::of_day(time));
        let mut line = Line::of(&Row { thread, time, action, pointer, bytes, stream }).open();
        // As in a log: a block is its allocation's, whichever thread frees it.
        let is_free = action == Action::Free;
        let (tag, site) = if is_free { (None, Site::NONE) } else { (Some(tag), site) };
        self.columns.finish(&mut line, tag, site);
        line
    }
}

/// How many rows fit into this many bytes.
fn fitting(lengths: impl Iterator<Item = usize>, bytes: usize) -> usize {
    let mut ends = lengths.scan(0_usize, |end, length| {
        *end += length;
        Some(*end)
    });
    ends.by_ref().take_while(|end| *end <= bytes).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(action: Action, block: u64) -> Event {
        let (tag, site) = (Tag::UNTAGGED, Site::NONE);
        let (pointer, bytes) = (DevicePtr(block * 4096), block * 100);
        Event { action, pointer, bytes, stream: 0, time: 0, thread: 1, tag, site }
    }

    /// The blocks that are live at the end of the rows, and those of which a free is met while they
    /// are not live.
    fn live_at_the_end(history: &History) -> (Vec<u64>, Vec<u64>) {
        let before = history.before.iter().map(|block| block.pointer.0 / 4096);
        let mut live: HashSet<u64> = before.collect();
        assert_eq!(live.len(), history.before.len(), "each once");
        let mut unknown = Vec::new();
        for event in &history.events {
            let block = event.pointer.0 / 4096;
            match event.action {
                Action::Allocate => assert!(live.insert(block), "allocated while live"),
                Action::Free if !live.remove(&block) => unknown.push(block),
                _ => {}
            }
        }
        let mut live: Vec<u64> = live.into_iter().collect();
        live.sort_unstable();
        (live, unknown)
    }

    fn history() -> History {
        use Action::{Allocate, Failure, Free};
        // Blocks 1 to 4 were live before the first event; 3 and 4 never had one.
        let events = [(Free, 1), (Allocate, 5), (Allocate, 1), (Free, 2), (Free, 5), (Failure, 9)];
        let live = [1, 3, 4].map(|block| {
            let Event { pointer, bytes, stream, tag, site, .. } = event(Allocate, block);
            Before { pointer, bytes, stream, tag, site }
        });
        History::new(live.into(), events.map(|(action, block)| event(action, block)).into(), None)
    }

    #[test]
    fn what_was_live_before_follows_from_frees_and_from_what_is_live() {
        let history = history();
        let before: Vec<u64> = history.before.iter().map(|block| block.bytes).collect();
        assert_eq!(before, [400, 300, 200, 100]);
        assert_eq!(live_at_the_end(&history), (vec![1, 3, 4], vec![]));
    }

    #[test]
    fn a_history_that_is_cut_has_the_same_end() {
        let mut whole = Vec::new();
        history().write(&mut whole).expect("memory");
        for bytes in (0..3 * whole.len()).step_by(16) {
            let mut history = history();
            let is_cut = history.cut(bytes);
            assert_eq!(is_cut, history.events.len() < 6 || history.before.len() < 4);
            let (live, unknown) = live_at_the_end(&history);
            if history.before.len() >= live.len() && unknown.is_empty() {
                assert!(live.iter().all(|block| [1, 3, 4].contains(block)), "{live:?}");
            }
            let mut written = Vec::new();
            history.write(&mut written).expect("memory");
            // The first line and the mark are beside the rows.
            assert!(written.len() <= bytes + 160, "{} of {bytes}", written.len());
        }
    }
}
