//! Memory that graphs use at each launch: nothing that is freed in it ever counts as complete, so
//! it serves the stream that has freed it, and no other.

#![forbid(unsafe_code)]

use super::Timeline;
use super::slot::RecordPolicy;
use crate::suballocators::pool::values::units::ListId;

impl Timeline {
    /// The policy for a stream that would have `policy`: no event is recorded for other streams
    /// while memory [is kept from them](Self::isolates), and the stream is not asked for anything,
    /// since it may be gone before its blocks are.
    pub(super) fn usable_policy(&self, policy: RecordPolicy) -> RecordPolicy {
        let is_needed = !self.isolates || policy == RecordPolicy::Fenced;
        if is_needed { policy } else { RecordPolicy::Retired }
    }

    /// Ends the [isolation](Self::isolates): what was freed counts as complete once a later event,
    /// or a wait, says so.
    pub(crate) fn end_isolation(&mut self) {
        self.isolates = false;
        for list in self.lists().collect::<Vec<_>>() {
            self.await_context(list);
        }
    }

    /// Has the list wait for an event of the context if blocks were freed that no other event will
    /// cover.
    pub(super) fn await_context(&mut self, list: ListId) {
        let slot = &mut self.slots[list.index()];
        let awaits = slot.unsealed_frees > 0 && !slot.is_reachable() && !self.isolates;
        if awaits && !slot.awaits_context {
            slot.awaits_context = true;
            self.context.await_next(list);
        }
    }
}
