//! What the driver is asked about streams: whether they are captured, which of their events are
//! complete, and to record and wait for events.
//!
//! The pool's context must be current in all of these but [`is_captured`] and [`asks_captured`].

use rmm_core::{CaptureScope, CudaEvent, CudaStream, Error, StreamRef};
use rmm_sys::{CuResult, CuStream};

use super::heap::{ListId, NodeId, Point};
use super::state::{PoolState, RECLAIM_BATCH};
use crate::trace;

/// How many streams are polled before the request is tried again.
const POLLED_TOGETHER: usize = 16;

/// Whether the stream is under capture. The driver is asked only if the program has announced
/// captures.
///
/// # Errors
/// If the driver cannot say.
pub(super) fn is_captured(stream: Option<StreamRef<'_>>) -> Result<bool, Error> {
    if CaptureScope::is_announced() { asks_captured(stream) } else { Ok(false) }
}

/// Whether the stream is under capture, as the driver says.
///
/// # Errors
/// If the driver cannot say.
pub(super) fn asks_captured(stream: Option<StreamRef<'_>>) -> Result<bool, Error> {
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
    pub(super) fn seal_late(&mut self, list: ListId) -> Result<(), Error> {
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
    pub(super) fn poll_others(&mut self, list: ListId) {
        self.poll_context_and(list);
        let mut next = 0;
        while let Some(other) = self.heap.next_occupied(&mut next) {
            if other != list {
                self.poll(other);
            }
        }
    }

    /// Asks the driver about events of the context, and on the stream of `list` records an event if
    /// blocks await it.
    fn poll_context_and(&mut self, list: ListId) {
        if list != ListId::ANY_STREAM && self.timeline.awaits_fence(list) {
            // If none can be recorded the blocks go on waiting.
            let _waiting = self.seal_late(list);
        }
        self.timeline.poll_context();
        if self.timeline.awaits_context(list) {
            // If none can be recorded the blocks stay unknown, and later steps remain.
            let _unknown = self.seal_context();
            self.timeline.poll_context();
        }
    }

    /// As [`poll_others`](Self::poll_others), a few streams at a time until a block of the size is
    /// free for the stream of `list`.
    pub(super) fn poll_for(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        self.poll_context_and(list);
        let mut polled = 0;
        let mut next = 0;
        while let Some(other) = self.heap.next_occupied(&mut next) {
            if other == list {
                continue;
            }
            self.poll(other);
            let done = self.timeline.done(other);
            self.heap.reclaim(other, done, RECLAIM_BATCH);
            polled += 1;
            if polled % POLLED_TOGETHER == 0
                && let Some(node) = self.heap.take(ListId::ANY_STREAM, size)
            {
                // The next call begins with the others.
                self.heap.begin_with(next);
                return Some(node);
            }
        }
        self.reclaim_completed();
        self.take_free(list, size)
    }

    /// Records an event behind all work of the context, for the lists on whose streams none can be
    /// recorded. In a driver that cannot do that, an event on the legacy default stream serves
    /// those of the threads' default streams.
    ///
    /// # Errors
    /// If a stream may be under capture, or the driver refuses.
    pub(super) fn seal_context(&mut self) -> Result<(), Error> {
        if self.may_capture() {
            return Err(Error::unsupported("pool", "a stream may be under capture"));
        }
        let sealed = self.timeline.seal_context(false, CudaEvent::record_in_context);
        match sealed {
            Err(error) if error.code() == Some(CuResult::NOT_SUPPORTED) => {
                self.timeline.seal_context(true, |event| event.record(StreamRef::legacy()))
            }
            sealed => sealed,
        }
    }

    /// Asks the driver what is complete of what was freed on a stream. If the stream is not idle an
    /// event is recorded, so that the next poll can separate the work up to now from later work.
    pub(super) fn poll(&mut self, list: ListId) {
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
            let _unknown = self.seal_late(list);
        }
        self.timeline.poll(list);
    }

    /// Makes a stream, whose list is `list`, wait for another's work up to `point`. Returns whether
    /// the stream is ordered after it now.
    pub(super) fn order_after(
        &mut self,
        list: ListId,
        stream: StreamRef<'_>,
        other: ListId,
        point: Point,
    ) -> bool {
        if self.timeline.visible_to(list, other) >= point {
            return true;
        }
        let is_sealed = self.timeline.is_sealed_up_to(other, point)
            || self.seal_late(other).is_ok()
            || self.timeline.is_covered_by_context(other, point)
            || self.seal_context().is_ok() && self.timeline.is_covered_by_context(other, point);
        if !is_sealed {
            return false;
        }
        let waits = self.timeline.wait(list, other, point, |event| stream.wait(event)).is_ok();
        if waits {
            trace::waited();
        }
        waits
    }

    /// Whether a stream of the device may be under capture, as far as the pool can find out: then
    /// the host must not wait for the device, which would invalidate the capture.
    pub(super) fn may_capture(&self) -> bool {
        let late = self.timeline.lists().filter_map(|list| self.timeline.late_handle(list));
        // The legacy default stream answers for all streams that block with it.
        let mut streams = late.chain([CuStream::LEGACY]);
        CaptureScope::is_announced()
            // SAFETY: the streams exist, as `late_handle` says, with the lock held; the legacy
            // default stream always exists.
            || streams.any(|stream| unsafe { CudaStream::may_be_capturing_raw(stream) })
    }
}
