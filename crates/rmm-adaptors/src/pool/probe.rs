//! What the driver is asked about streams: whether they are captured, which of their events are
//! complete, and to record and wait for events.
//!
//! The pool's context must be current in all of these but [`is_captured`] and [`asks_captured`].

use rmm_core::{CaptureScope, CudaStream, Error, StreamRef};
use rmm_sys::CuStream;

use super::heap::{ListId, Point};
use super::state::PoolState;
use crate::trace;

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

    /// Asks the driver what is complete of what was freed on all streams but the one of `list`.
    pub(super) fn poll_others(&mut self, list: ListId) {
        let mut next = 0;
        while let Some(other) = self.heap.next_occupied(&mut next) {
            if other != list {
                self.poll(other);
            }
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
        if !self.timeline.is_sealed_up_to(other, point) && self.seal_late(other).is_err() {
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
