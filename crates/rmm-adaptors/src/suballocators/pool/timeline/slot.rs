//! A stream in a [`Timeline`](super::Timeline), and how events get to it.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

use rmm_core::{CudaEvent, Error, StreamId};
use rmm_sys::CuStream;

use super::frontier::Frontier;
use crate::suballocators::pool::values::units::Point;

/// Upper bound on a stream's events in flight. When the device lags behind, the newest is recorded
/// anew.
pub(super) const MAX_EVENTS: usize = 32;

/// How an event can be recorded behind the work of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordPolicy {
    /// On the stream, at any time until it retires, so as late as possible.
    OnDemand,
    /// As `OnDemand`, and one must lie between a free and the next use of the block by the same
    /// stream: the legacy default stream orders blocking streams by the work that is enqueued on
    /// it, so without an event nothing may separate two uses of a block by two of them.
    Fenced,
    /// A thread's own default stream. On the stream only in a call of its thread, otherwise behind
    /// all work of the context.
    PerThread,
    /// As `PerThread`, of a stream that may be gone at any time: its handle is valid only in the
    /// calls that it is given to.
    Unknown,
    /// The stream has retired: behind all work of the context.
    Retired,
}

/// An event that covers all points of a stream up to `covers`.
#[derive(Debug)]
pub(super) struct RecordedEvent {
    pub(super) event: CudaEvent,
    pub(super) covers: Point,
    /// What the stream was ordered after when the event was recorded; a stream that waits for the
    /// event is ordered after it, too.
    pub(super) frontier: Frontier,
}

/// A stream that memory was allocated or freed on. Its number is that of its free list.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Slot {
    pub(super) stream: Option<StreamId>,
    /// # Invariant
    /// The stream exists while `policy` is [`RecordPolicy::OnDemand`] or
    /// [`RecordPolicy::Fenced`]: it retires, which changes the policy, before it is destroyed.
    pub(super) handle: CuStream,
    /// Whether everything the stream is ordered after is complete when it is found idle.
    pub(super) idle_tells: bool,
    /// Requests in progress whose list this is: it must not become another stream's meanwhile.
    pub(super) pins: u32,
    pub(super) policy: RecordPolicy,
    /// Whether the slot belongs to no stream.
    ///
    /// # Invariant
    /// `is_spare =>` its list is empty, no batch belongs to it, and it is in `spare_slots` once.
    pub(super) is_spare: bool,
    /// The point that blocks freed now get. Always above that of every event.
    pub(super) open: Point,
    /// Every point up to this one is known to be complete.
    pub(super) done: Point,
    /// Every point up to this one is followed by an event on the stream. Only for
    /// [`RecordPolicy::Fenced`].
    pub(super) fenced: Point,
    /// Whether it is in the queue of lists with [news](super::Timeline::next_news).
    pub(super) has_news: bool,
    pub(super) unsealed_frees: u32,
    pub(super) unsealed_bytes: u64,
    /// Whether it is among the slots whose next event has to come from the context.
    pub(super) awaits_context: bool,
    /// Oldest first.
    pub(super) events: VecDeque<RecordedEvent>,
    pub(super) frontier: Frontier,
}

impl Slot {
    pub(super) fn new(
        stream: Option<StreamId>,
        handle: CuStream,
        policy: RecordPolicy,
        idle_tells: bool,
    ) -> Self {
        Self {
            stream,
            handle,
            idle_tells,
            pins: 0,
            policy,
            is_spare: false,
            open: 1,
            done: 0,
            fenced: 0,
            has_news: false,
            unsealed_frees: 0,
            unsealed_bytes: 0,
            awaits_context: false,
            events: VecDeque::new(),
            frontier: Frontier::default(),
        }
    }

    /// Whether other threads can record an event on the stream now.
    pub(super) fn is_reachable(&self) -> bool {
        matches!(self.policy, RecordPolicy::OnDemand | RecordPolicy::Fenced)
    }

    /// Closes the current point, which an event covers now. Returns it.
    pub(super) fn close_point(&mut self) -> Point {
        self.open += 1;
        self.unsealed_frees = 0;
        self.unsealed_bytes = 0;
        self.open - 1
    }
}

impl RecordedEvent {
    /// A new event, which is not recorded and covers nothing.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self { event: CudaEvent::new()?, covers: 0, frontier: Frontier::default() })
    }
}
