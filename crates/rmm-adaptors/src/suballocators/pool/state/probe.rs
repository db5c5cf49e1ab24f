//! What the driver is asked about streams: whether they are captured, which of their events are
//! complete, and to record and wait for events.
//!
//! The pool's context must be current in all of these but [`is_captured`] and [`asks_captured`].

use rmm_core::{CaptureScope, CudaEvent, CudaStream, Error, StreamRef};
use rmm_sys::{CuResult, CuStream};

use super::pool_state::{PoolState, RECLAIM_BATCH};
use super::session::Session;
use crate::shared::trace;
use crate::suballocators::pool::heap::NodeId;
use crate::suballocators::pool::values::units::{ListId, Point};

/// How many streams are polled before the request is tried again.
const POLLED_TOGETHER: usize = 16;

/// The most streams of which nothing is complete that a request polls before it makes its stream
/// wait for another: streams that lag behind the host would all be asked again by each request.
const POLLED_IN_VAIN: usize = 16;

/// How far a request asks the driver what is complete, and whether it records an event of the
/// context whatever that costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Polling {
    /// A bounded number of calls, or as many as were paid for by frees.
    Bounded,
    /// As many calls as there are streams: what comes next costs more.
    Full,
}

/// Whether the stream is under capture. The driver is asked only if the program has announced
/// captures.
///
/// # Errors
/// If the driver cannot say.
pub(crate) fn is_captured(stream: Option<StreamRef<'_>>) -> Result<bool, Error> {
    if CaptureScope::is_announced() { asks_captured(stream) } else { Ok(false) }
}

/// Whether the stream is under capture, as the driver says.
///
/// # Errors
/// If the driver cannot say.
pub(crate) fn asks_captured(stream: Option<StreamRef<'_>>) -> Result<bool, Error> {
    // The legacy default stream is never captured, and the driver refuses to say so while a stream
    // that blocks with it is.
    let stream = stream.filter(|stream| !stream.is_default());
    stream.map_or(Ok(false), StreamRef::is_capturing)
}

impl PoolState {
    /// Records an event on a stream from outside the calls that were given it.
    ///
    /// # Errors
    /// If the stream cannot be reached, or is under capture, or the driver refuses.
    pub(crate) fn seal_late(&mut self, list: ListId) -> Result<(), Error> {
        let Some(handle) = self.timeline.late_handle(list) else {
            return Err(Error::unsupported("pool", "the stream cannot be reached from here"));
        };
        // SAFETY: `late_handle` gives a stream that exists until `Timeline::retire` is called for
        // it. `stream_retires` does that before the stream is destroyed, and needs the pool's lock,
        // which is held here.
        if unsafe { CudaStream::may_be_capturing_raw(handle) } {
            return Err(Error::unsupported("pool", "the stream is under capture"));
        }
        self.timeline.seal(list, |event| {
            // SAFETY: the stream exists, as `late_handle` says; the lock is held.
            unsafe { event.record_raw(handle) }
        })
    }

    /// Asks the driver what is complete of what was freed on all streams but the one of `list`. On
    /// that one, an event is recorded if blocks await it.
    pub(crate) fn poll_others(&mut self, list: ListId) {
        let _all = self.poll_context_and(list, Polling::Full);
        let mut next = 0;
        while let Some(other) = self.heap.next_occupied(&mut next) {
            if other != list {
                self.poll(other);
            }
        }
    }

    /// Asks the driver what is complete of what was freed on the stream whose turn it is, unless
    /// that is the stream of `own`, and makes it idle. The pool's context must be current.
    pub(crate) fn reclaim_in_turn(&mut self, own: ListId) {
        let mut next = 0;
        let mut turn = self.heap.next_occupied(&mut next);
        if turn == Some(own) {
            turn = self.heap.next_occupied(&mut next);
        }
        self.heap.begin_with(next);
        if let Some(list) = turn.filter(|&list| list != own) {
            let before = self.heap.free_bytes(list);
            self.poll(list);
            let done = self.timeline.done(list);
            self.heap.reclaim(list, done, RECLAIM_BATCH);
            if self.heap.free_bytes(list) == before {
                self.reclaim_turns.note_in_vain();
            }
        }
    }

    /// Asks the driver about events of the context, and on the stream of `list` records an event if
    /// blocks await it. Returns `false` if an event of the context is wanted and not paid for.
    fn poll_context_and(&mut self, list: ListId, effort: Polling) -> bool {
        if list != ListId::ANY_STREAM && self.timeline.awaits_fence(list) {
            // If none can be recorded the blocks go on waiting.
            let _waiting = self.seal_late(list);
        }
        self.timeline.poll_context();
        if !self.timeline.awaits_context(list) {
            return true;
        }
        if !self.affords_context_event(effort) {
            return false;
        }
        // If none can be recorded the blocks stay unknown, and later steps remain.
        let _ignored = self.seal_context();
        self.timeline.poll_context();
        true
    }

    /// Whether an event of the context may be recorded, for which each stream is asked whether it
    /// is captured: after as many frees as there are streams, or if nothing cheaper is left.
    fn affords_context_event(&self, effort: Polling) -> bool {
        effort == Polling::Full || self.timeline.has_paid_for_context_event()
    }

    /// Records an event behind all work of the context, for the lists on whose streams none can be
    /// recorded. In a driver that cannot do that, an event on the legacy default stream serves
    /// those of the threads' default streams.
    ///
    /// # Errors
    /// If a stream may be under capture, or the driver refuses.
    pub(crate) fn seal_context(&mut self) -> Result<(), Error> {
        if self.timeline.has_context_events() {
            self.timeline.note_context_event();
            if self.may_capture() {
                return Err(Error::unsupported("pool", "a stream may be under capture"));
            }
            let sealed = self.timeline.seal_context(false, CudaEvent::record_in_context);
            match sealed {
                Err(error) if error.code() == Some(CuResult::NOT_SUPPORTED) => {
                    self.timeline.note_no_context_events();
                }
                sealed => return sealed,
            }
        }
        // SAFETY: the legacy default stream always exists.
        let is_captured = unsafe { CudaStream::may_be_capturing_raw(CuStream::LEGACY) };
        if is_captured || CaptureScope::is_announced() {
            return Err(Error::unsupported("pool", "a stream may be under capture"));
        }
        self.timeline.seal_context(true, |event| event.record(StreamRef::legacy()))
    }

    /// Asks the driver what is complete of what was freed on a stream. If the stream is not idle an
    /// event is recorded, so that the next poll can separate the work up to now from later work.
    pub(crate) fn poll(&mut self, list: ListId) {
        if self.timeline.is_unsealed(list)
            && !self.heap.is_empty(list)
            && let Some(handle) = self.timeline.late_handle(list)
        {
            if self.timeline.idle_tells(list) {
                self.timeline.counts.queries += 1;
                // SAFETY: the stream exists, as `late_handle` says; the lock is held.
                let is_captured = unsafe { CudaStream::may_be_capturing_raw(handle) };
                // SAFETY: the stream exists, as `late_handle` says; the lock is held.
                if !is_captured && unsafe { CudaStream::is_idle_raw(handle) }.unwrap_or(false) {
                    self.timeline.finish_all(list);
                    return;
                }
            }
            // If no event can be recorded the blocks stay unknown, and later steps remain.
            let _ignored = self.seal_late(list);
        }
        self.timeline.poll(list);
    }

    /// Makes a stream, whose list is `list`, wait for another's work up to `point`. Returns whether
    /// the stream is ordered after it now.
    pub(crate) fn order_after(
        &mut self,
        list: ListId,
        stream: StreamRef<'_>,
        other: ListId,
        point: Point,
        effort: Polling,
    ) -> bool {
        if self.timeline.visible_to(list, other) >= point {
            return true;
        }
        if self.timeline.isolates {
            return false;
        }
        let is_sealed = self.timeline.is_sealed_up_to(other, point)
            || self.seal_late(other).is_ok()
            || self.timeline.is_covered_by_context(other, point)
            || self.affords_context_event(effort)
                && self.seal_context().is_ok()
                && self.timeline.is_covered_by_context(other, point);
        if !is_sealed {
            return false;
        }
        let waits = self.timeline.wait(list, other, point, |event| stream.wait(event)).is_ok();
        if waits {
            trace::waited();
        }
        waits
    }

    /// Whether a wait for the device would make freed memory idle, and may be made: it would
    /// invalidate a capture, and what graphs use it never makes idle.
    pub(crate) fn may_wait_for_device(&mut self) -> bool {
        !self.timeline.isolates && !self.may_capture()
    }

    /// Whether a stream of the device may be under capture, as far as the pool can find out: then
    /// the host must not wait for the device, which would invalidate the capture.
    ///
    /// The streams are asked each time. Who owns one may capture it at any time, without a call
    /// that the pool could notice, so an answer is out of date once it is given.
    pub(crate) fn may_capture(&mut self) -> bool {
        if CaptureScope::is_announced() {
            return true;
        }
        let timeline = &self.timeline;
        let is_captured = |&list: &ListId| {
            let handle = timeline.late_handle(list);
            // SAFETY: the stream exists, as `late_handle` says, with the lock held.
            handle.is_some_and(|handle| unsafe { CudaStream::may_be_capturing_raw(handle) })
        };
        // A capture that goes on is found by the first question.
        let last = self.last_captured.filter(|&list| timeline.has_slot(list));
        self.last_captured = last.into_iter().chain(timeline.lists()).find(is_captured);
        // SAFETY: the legacy default stream always exists.
        let legacy_says = || unsafe { CudaStream::may_be_capturing_raw(CuStream::LEGACY) };
        // It answers for all streams that block with it.
        self.last_captured.is_some() || legacy_says()
    }
}

impl Session<'_> {
    /// Polls the other streams, as [`poll_others`](PoolState::poll_others) does, but a few at a
    /// time until a block of `size` bytes is free for the stream of `list`. Returns also whether
    /// all were polled.
    pub(crate) fn poll_for(
        &mut self,
        list: ListId,
        size: u64,
        effort: Polling,
    ) -> (Option<NodeId>, bool) {
        let is_all = self.poll_context_and(list, effort);
        let (mut polled, mut in_vain) = (0, 0);
        let mut next = 0;
        while let Some(other) = self.heap.next_occupied(&mut next) {
            if other == list {
                continue;
            }
            let before = self.timeline.done(other);
            self.poll(other);
            let done = self.timeline.done(other);
            self.heap.reclaim(other, done, RECLAIM_BATCH);
            self.pause();
            polled += 1;
            // What is complete is found so once.
            in_vain += usize::from(done == before);
            let is_enough = effort == Polling::Bounded && in_vain >= POLLED_IN_VAIN;
            if polled % POLLED_TOGETHER == 0 || is_enough {
                let node = self.heap.take(ListId::ANY_STREAM, size);
                if node.is_some() || is_enough {
                    // The next call begins with the others.
                    self.heap.begin_with(next);
                    return (node.or_else(|| self.take_free(list, size)), false);
                }
            }
        }
        self.reclaim_completed();
        (self.take_free(list, size), is_all)
    }
}
