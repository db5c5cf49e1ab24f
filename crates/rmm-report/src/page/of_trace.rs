//! The view of a log alone: recorded addresses, no resource.

use super::view::{Ending, NEVER, Names, View, ViewBlock, ViewFailure};
use crate::trace::{Action, Before, Trace};

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
                Action::AllocateFailure { .. } => view.fail(trace, index, String::new()),
            }
        }
        view
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
    pub(crate) fn fail(&mut self, trace: &Trace, index: usize, text: String) {
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
