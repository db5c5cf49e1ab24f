//! Events behind all work of the context.
//!
//! On some streams no event can be recorded from elsewhere: the default stream of another thread,
//! which may sleep or have ended, a stream of another library, which may be gone, and one that was
//! destroyed before an event was recorded. `cuCtxRecordEvent` covers them all at once:
//!
//! ```text
//!   thread 1's stream   free free |          free
//!   thread 2's stream     free    | free
//!   a destroyed stream  free      |
//!                              one event of the context
//! ```
//!
//! In the words of vector clocks the context is one more process, which is ordered after all
//! others whenever it records an event: what the event covers is its frontier.

#![forbid(unsafe_code)]

use rmm_core::{CudaEvent, Error};

use super::Timeline;
use super::frontier::Frontier;
use super::slot::{MAX_EVENTS, RecordPolicy, RecordedEvent};
use crate::suballocators::pool::values::units::ListId;

/// So few streams are asked whenever an event is wanted.
const FEW_STREAMS: usize = 32;

impl Timeline {
    /// Whether blocks of another list than `list` wait for an event of the context. Amortised O(1):
    /// lists that have got an event of their own since are left out from now on.
    pub(crate) fn awaits_context(&mut self, list: ListId) -> bool {
        let mut next = 0;
        while let Some(&other) = self.context.awaiting.get(next) {
            let slot = &mut self.slots[other.index()];
            if slot.unsealed_frees == 0 {
                slot.awaits_context = false;
                self.context.awaiting.swap_remove(next);
            } else if other == list {
                next += 1;
            } else {
                return true;
            }
        }
        false
    }

    /// Whether as many blocks were freed since the last event of the context as there are streams
    /// to be asked before the next: a question for each free.
    pub(crate) fn has_paid_for_context_event(&self) -> bool {
        self.context.frees >= self.slots_in_use() || self.slots_in_use() <= FEW_STREAMS
    }

    /// Whether the driver records such events, as far as is known.
    pub(crate) fn has_context_events(&self) -> bool {
        !self.context.is_unsupported
    }

    /// Notes that the driver records none: it never will.
    pub(crate) fn note_no_context_events(&mut self) {
        self.context.is_unsupported = true;
    }

    /// Notes that all streams are about to be asked.
    pub(crate) fn note_context_event(&mut self) {
        self.context.frees = 0;
    }

    /// Whether an event of the context should be recorded so that slots can be freed: it serves
    /// many of them.
    pub(crate) fn is_context_event_due(&self) -> bool {
        self.context.awaiting.len() * 2 >= self.slots_in_use()
    }

    /// Seals all lists that await it: `record` records an event behind all work of the context. If
    /// `is_of_legacy`, the event is only behind the work of the streams that block with the legacy
    /// default stream, among them those of all threads.
    ///
    /// # Errors
    /// What `record` returns. Then nothing has changed.
    pub(crate) fn seal_context(
        &mut self,
        is_of_legacy: bool,
        record: impl FnOnce(&CudaEvent) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // A full queue's newest event is recorded anew, and then covers more.
        let is_full = self.context.events.len() >= MAX_EVENTS;
        let newest = if is_full { self.context.events.pop_back() } else { None };
        let mut event = match newest.or_else(|| self.spare_events.pop()) {
            Some(event) => event,
            None => RecordedEvent::new()?,
        };
        self.counts.records += 1;
        let recorded = record(&event.event);
        if recorded.is_ok() {
            if !is_full {
                event.frontier.clear();
            }
            self.close_awaiting(is_of_legacy, &mut event.frontier);
        }
        if recorded.is_ok() || is_full {
            self.context.events.push_back(event);
        } else {
            self.spare_events.push(event);
        }
        recorded
    }

    /// Closes the points of the lists that an event of the context covers, in its frontier.
    fn close_awaiting(&mut self, is_of_legacy: bool, covered: &mut Frontier) {
        let slots = &mut self.slots;
        self.context.awaiting.retain(|list| {
            let slot = &mut slots[list.index()];
            if is_of_legacy && slot.policy != RecordPolicy::PerThread {
                return true;
            }
            slot.awaits_context = false;
            if slot.unsealed_frees > 0 {
                covered.push(*list, slot.close_point());
            }
            false
        });
        covered.sort();
    }

    /// Queries the context's events, oldest first. A failure counts as not complete.
    pub(crate) fn poll_context(&mut self) {
        while self.polls
            && let Some(event) = self.context.events.front()
        {
            self.counts.queries += 1;
            if !event.event.is_complete().unwrap_or(false) {
                break;
            }
            let Some(event) = self.context.events.pop_front() else { break };
            self.finish_frontier(&event.frontier);
            self.spare_events.push(event);
        }
    }
}
