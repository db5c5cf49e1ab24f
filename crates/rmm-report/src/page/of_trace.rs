//! The view of a log alone: recorded addresses, no resource.

use super::view::{Ending, NEVER, Names, View, ViewBlock, ViewFailure, ViewLimit, ViewSegment};
use crate::trace::{Action, Before, Growth, Trace};

impl View {
    /// What a log says by itself. Its addresses are those that were recorded; what was held from
    /// the driver is not known.
    pub fn of_trace(trace: &Trace) -> Self {
        let mut view = Self::of_log(trace);
        let mut live = vec![usize::MAX; trace.blocks as usize];
        for before in &trace.before {
            live[before.block as usize] = view.blocks.len();
            view.blocks.push(ViewBlock::of_before(before));
        }
        for (index, position) in (0..trace.events.len()).zip(1..) {
            match trace.events[index].action {
                Action::Allocate { block, .. } => {
                    live[block as usize] = view.blocks.len();
                    let address = trace.address(index);
                    view.blocks.extend(Self::block_of(trace, index, address));
                }
                Action::Free { block, .. } => {
                    if let Some(block) = view.blocks.get_mut(live[block as usize]) {
                        block.end = position;
                    }
                }
                Action::AllocateFailure { .. } => view.fail(trace, index, String::new(), None),
            }
        }
        view.add_growth(trace);
        view
    }

    /// What a snapshot says of the memory below: bytes, and where it is if all of it is known.
    fn add_growth(&mut self, trace: &Trace) {
        if trace.growth.is_empty() && trace.reserved_before == 0 {
            return;
        }
        let mut reserved = trace.reserved_before;
        let mut levels = vec![(0, reserved)];
        for growth in &trace.growth {
            let position = u32::try_from(growth.event).unwrap_or(NEVER - 1);
            let Growth { address, bytes: size, .. } = *growth;
            if growth.is_taken {
                reserved = reserved.saturating_add(size);
                self.segments.push(ViewSegment { address, size, start: position, end: NEVER });
            } else {
                reserved = reserved.saturating_sub(size);
                let is_it =
                    |segment: &&mut ViewSegment| segment.address == address && segment.end == NEVER;
                if let Some(segment) = self.segments.iter_mut().rev().find(is_it) {
                    segment.end = position;
                }
            }
            match levels.last_mut() {
                Some(last) if last.0 == position => last.1 = reserved,
                _ => levels.push((position, reserved)),
            }
        }
        self.reserved = Some(levels);
        if trace.reserved_before > 0 {
            self.segments.clear();
        }
    }

    /// The events and names of a log, without its blocks.
    pub(crate) fn of_log(trace: &Trace) -> Self {
        let events = trace.events.len();
        let hexadecimal = |numbers: &[u64]| numbers.iter().map(|n| format!("{n:#x}")).collect();
        let times = if trace.has_times() {
            (0..events).map_while(|i| trace.time(i)).collect()
        } else {
            Vec::new()
        };
        Self {
            log: trace.path.display().to_string(),
            events: u32::try_from(events).unwrap_or(NEVER - 1),
            // A log that has the same time everywhere has none.
            times: if times.last() == Some(&0) { Vec::new() } else { times },
            names: Names {
                streams: hexadecimal(&trace.streams),
                threads: trace.threads.iter().map(u64::to_string).collect(),
                tags: trace.tags.clone(),
                sites: trace.sites.clone(),
            },
            ending: match (trace.ended, trace.ends_early) {
                (_, true) => Ending::Open,
                (true, false) => Ending::Closed,
                (false, false) => Ending::Unknown,
            },
            ..Self::default()
        }
    }

    /// The block that an event allocates.
    pub(crate) fn block_of(trace: &Trace, index: usize, address: u64) -> Option<ViewBlock> {
        let event = trace.events.get(index)?;
        let Action::Allocate { size, .. } = event.action else { return None };
        Some(ViewBlock {
            start: u32::try_from(index + 1).ok()?,
            end: NEVER,
            size,
            address,
            stream: event.stream,
            thread: event.thread,
            tag: trace.tag(index),
            site: trace.site(index),
        })
    }

    /// Adds the failure of an event.
    pub(crate) fn fail(
        &mut self,
        trace: &Trace,
        index: usize,
        text: String,
        limit: Option<ViewLimit>,
    ) {
        self.failed += 1;
        if self.failures.len() == Self::MAX_FAILURES {
            return;
        }
        let Some(event) = trace.events.get(index) else { return };
        let (Action::Allocate { size, .. }
        | Action::Free { size, .. }
        | Action::AllocateFailure { size }) = event.action;
        self.failures.push(ViewFailure {
            position: u32::try_from(index + 1).unwrap_or(NEVER - 1),
            size,
            text,
            limit,
            stream: event.stream,
            tag: trace.tag(index),
            site: trace.site(index),
        });
    }
}

impl ViewBlock {
    /// One that was live before the first event, at its recorded address.
    pub(crate) fn of_before(before: &Before) -> Self {
        Self {
            end: NEVER,
            size: before.size,
            address: before.address,
            stream: before.stream,
            tag: before.tag,
            site: before.site,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_from;

    #[test]
    fn what_a_snapshot_held_is_known() {
        let log = "Thread,Time,Action,Pointer,Size,Stream\n1,0,allocate,0x200000,1000,0\n\
                   1,0,allocate failure,0x0,5000,0\n1,0,free,0x200000,1000,0\n";
        let mut trace = read_from("log.csv", log.as_bytes()).expect("a log");
        assert_eq!(View::of_trace(&trace).reserved, None);
        let grown = |event, is_taken| Growth {
            event,
            time: None,
            address: 0x20_0000,
            bytes: 2 << 20,
            is_taken,
        };
        trace.growth = vec![grown(0, true), grown(3, false)];
        let view = View::of_trace(&trace);
        assert_eq!(view.reserved, Some(vec![(0, 2 << 20), (3, 0)]));
        assert_eq!(
            view.segments,
            [ViewSegment { address: 0x20_0000, size: 2 << 20, start: 0, end: 3 }]
        );
        assert_eq!((view.failed, view.failures[0].position), (1, 2));
        assert_eq!((view.blocks[0].start, view.blocks[0].end), (1, 3));
        trace.reserved_before = 1 << 20;
        let view = View::of_trace(&trace);
        assert_eq!(
            (view.reserved, view.segments.len()),
            (Some(vec![(0, 3 << 20), (3, 1 << 20)]), 0)
        );
    }
}
