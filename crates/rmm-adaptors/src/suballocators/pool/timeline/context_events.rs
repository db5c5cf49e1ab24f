//! The events of a context that are not complete, and who awaits the next:
//! [`context`](super::context) records them.

use std::collections::VecDeque;

use super::slot::RecordedEvent;
use crate::suballocators::pool::values::units::{ListId, Point};

/// The events of a context that may not be complete, and the lists that await the next.
#[derive(Debug, Default)]
pub(super) struct ContextEvents {
    /// Oldest first. What they cover is in their frontiers.
    pub(super) events: VecDeque<RecordedEvent>,
    /// Lists that have held blocks which no event of their own stream could cover.
    ///
    /// # Invariant
    /// A list is in here, once, if and only if its slot `awaits_context`.
    pub(super) awaiting: Vec<ListId>,
    /// Frees into the heap, on any list, since the last event, or the last attempt to record one.
    pub(super) frees: usize,
    /// Whether the driver is known not to record such events.
    pub(super) is_unsupported: bool,
}

impl ContextEvents {
    pub(super) fn await_next(&mut self, list: ListId) {
        self.awaiting.push(list);
    }

    /// The oldest event that covers the list's frees up to `point`.
    pub(super) fn first_that_covers(&self, list: ListId, point: Point) -> Option<&RecordedEvent> {
        self.events.iter().find(|event| event.frontier.point(list) >= point)
    }

    /// The newest event that covers some of the list's frees.
    pub(super) fn last_that_covers(&self, list: ListId) -> Option<&RecordedEvent> {
        self.events.iter().rfind(|event| event.frontier.point(list) > 0)
    }

    /// Forgets all lists from number `lists` on, which are gone, and frees host memory.
    pub(super) fn shrink(&mut self, lists: usize) {
        self.awaiting.retain(|list| list.index() < lists);
        self.awaiting.shrink_to_fit();
        self.events.shrink_to_fit();
    }

    /// Host bytes of the tables.
    pub(super) fn bookkeeping_bytes(&self) -> usize {
        let frontiers: usize =
            self.events.iter().map(|event| event.frontier.bookkeeping_bytes()).sum();
        self.events.capacity() * size_of::<RecordedEvent>()
            + self.awaiting.capacity() * size_of::<ListId>()
            + frontiers
    }
}
