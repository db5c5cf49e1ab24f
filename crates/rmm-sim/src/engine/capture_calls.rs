//! The calls that captures forbid, and the calls that begin and end a capture.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use rmm_sys::{CuCaptureMode, CuEvent, CuResult};

use crate::engine::session::Session;
use crate::model::captures::Capture;
use crate::model::graph::{Ends, Graph};
use crate::model::streams::StreamKind;

/// Calls that are "potentially unsafe" whatever their arguments, see
/// [`Session::admit_unsafe_call`]. Calls that check their arguments first call it themselves.
const UNSAFE: &[&str] = &[
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemAllocManaged",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemPoolTrimTo",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAttribute",
];

impl Session<'_> {
    /// Refuses a call that captures forbid whatever its arguments.
    ///
    /// # Errors
    /// The errors of [`admit_unsafe_call`](Self::admit_unsafe_call).
    pub(crate) fn admit_during_captures(&mut self, name: &'static str) -> Result<(), CuResult> {
        self.captures.call = name;
        if UNSAFE.contains(&name) { self.admit_unsafe_call() } else { Ok(()) }
    }

    /// Refuses the current call, which is "potentially unsafe" (it acts or waits outside of stream
    /// order), if captures forbid such calls to the calling thread.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED` if the modes of the thread and of the captures forbid it; this
    /// invalidates the captures.
    pub(crate) fn admit_unsafe_call(&mut self) -> Result<(), CuResult> {
        if self.captures.active.is_empty() {
            return Ok(());
        }
        let thread = self.thread();
        let mode = self.captures.modes.get(&thread).copied().unwrap_or(CuCaptureMode::GLOBAL);
        let forbids = |capture: &Capture| match mode {
            CuCaptureMode::RELAXED => false,
            _ if capture.thread == thread => capture.mode != CuCaptureMode::RELAXED,
            CuCaptureMode::GLOBAL => capture.mode == CuCaptureMode::GLOBAL,
            _ => false,
        };
        let captures = self.captures.active.iter();
        let captures: Vec<u64> =
            captures.filter(|(_, capture)| forbids(capture)).map(|(&id, _)| id).collect();
        if captures.is_empty() {
            Ok(())
        } else {
            Err(self.invalidate(captures, CuResult::STREAM_CAPTURE_UNSUPPORTED))
        }
    }

    /// Refuses the current call, which queries or waits for a stream, if captures forbid it.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED` if it is being captured, and as
    /// [`admit_unsafe_call`](Self::admit_unsafe_call) and `admit_legacy_stream`.
    pub(crate) fn admit_wait_for_stream(&mut self, id: u64) -> Result<(), CuResult> {
        self.admit_legacy_stream(id)?;
        match self.captures.of(id) {
            Some(of) => Err(self.invalidate([of], CuResult::STREAM_CAPTURE_UNSUPPORTED)),
            None => self.admit_unsafe_call(),
        }
    }

    /// Refuses the current call, which queries or waits for an event, if captures forbid it.
    ///
    /// # Errors
    /// `CAPTURED_EVENT` if it was last recorded in a capture, `INVALID_VALUE` if that has ended,
    /// and as [`admit_unsafe_call`](Self::admit_unsafe_call).
    pub(crate) fn admit_wait_for_event(&mut self, event: CuEvent) -> Result<(), CuResult> {
        let key = self.event(event)?;
        let captured = self.events.get(&key).and_then(|event| event.captured.clone());
        match captured {
            Some(captured) => {
                let of = self.captures.of_event(&captured)?;
                Err(self.invalidate([of], CuResult::CAPTURED_EVENT))
            }
            None => self.admit_unsafe_call(),
        }
    }

    /// Refuses to let a context wait for an event that was recorded in a capture.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED` if it was last recorded in a capture.
    pub(crate) fn check_outside_captures(&mut self, event: u64) -> Result<(), CuResult> {
        match self.events.get(&event).and_then(|event| event.captured.clone()) {
            Some(captured) => {
                let of = self.captures.of_event(&captured)?;
                Err(self.invalidate([of], CuResult::STREAM_CAPTURE_UNSUPPORTED))
            }
            None => Ok(()),
        }
    }

    /// Refuses work for which the software device has no graph nodes.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if the stream is being captured.
    pub(crate) fn refuse_in_capture(&self, id: u64) -> Result<(), CuResult> {
        if self.captures.has(id) { Err(CuResult::NOT_SUPPORTED) } else { Ok(()) }
    }

    /// Begins to capture a stream.
    pub(crate) fn begin_capture(&mut self, id: u64, mode: CuCaptureMode) -> Result<(), CuResult> {
        if !CuCaptureMode::KNOWN.iter().any(|(known, _)| *known == mode) {
            return Err(CuResult::INVALID_VALUE);
        }
        self.admit_legacy_stream(id)?;
        if self.streams.get(id).is_some_and(|stream| stream.kind == StreamKind::Legacy) {
            return Err(CuResult::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.captures.has(id) {
            return Err(CuResult::ILLEGAL_STATE);
        }
        let (key, thread) = (self.next_key(), self.thread());
        let ends = BTreeMap::from([(id, Ends::new())]);
        let capture =
            Capture { origin: id, thread, mode, is_valid: true, graph: Graph::default(), ends };
        self.captures.active.insert(key, capture);
        Ok(())
    }

    /// Ends the capture that was begun on a stream.
    ///
    /// # Errors
    /// `ILLEGAL_STATE` if there is none. `STREAM_CAPTURE_UNMATCHED` on another stream that takes
    /// part, which invalidates the capture. Otherwise the capture ends, but returns no graph if it
    /// is invalid, if streams were not joined, or if the calling thread may not end it.
    pub(crate) fn end_capture(&mut self, id: u64) -> Result<Graph, CuResult> {
        let of = self.captures.of(id).ok_or(CuResult::ILLEGAL_STATE)?;
        if self.captures.active.get(&of).is_some_and(|capture| capture.origin != id) {
            return Err(self.invalidate([of], CuResult::STREAM_CAPTURE_UNMATCHED));
        }
        let capture = self.captures.active.remove(&of).ok_or(CuResult::ILLEGAL_STATE)?;
        if capture.mode != CuCaptureMode::RELAXED && capture.thread != self.thread() {
            return Err(CuResult::STREAM_CAPTURE_WRONG_THREAD);
        }
        if !capture.is_valid {
            return Err(CuResult::STREAM_CAPTURE_INVALIDATED);
        }
        if capture.ends.get(&id).is_none_or(|ends| !capture.graph.ends_in(ends)) {
            return Err(CuResult::STREAM_CAPTURE_UNJOINED);
        }
        Ok(capture.graph)
    }

    /// Sets the calling thread's capture mode; returns the former one.
    pub(crate) fn exchange_mode(&mut self, mode: CuCaptureMode) -> Result<CuCaptureMode, CuResult> {
        if !CuCaptureMode::KNOWN.iter().any(|(known, _)| *known == mode) {
            return Err(CuResult::INVALID_VALUE);
        }
        let thread = self.thread();
        let former = self.captures.modes.insert(thread, mode);
        Ok(former.unwrap_or(CuCaptureMode::GLOBAL))
    }
}
