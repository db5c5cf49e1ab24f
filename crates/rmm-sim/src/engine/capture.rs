//! Stream capture: work that becomes part of a graph instead of running, and the calls that are
//! forbidden meanwhile.
//!
//! The rules are those of `cuda.h` and the programming guide. Where these leave something open
//! (which calls are "potentially unsafe", which errors invalidate a capture), the rules are those
//! observed on an H200 with a driver of CUDA 13.0.
#![forbid(unsafe_code)]

use rmm_sys::{CuCaptureStatus, CuResult};

use crate::engine::state::State;
use crate::model::graph::{Captured, Ends};
use crate::model::streams::StreamKind;
use crate::model::violation::{Violation, ViolationKind};
use crate::model::work::Work;

impl State {
    /// Invalidates captures that the current call conflicts with; returns the call's code.
    pub(crate) fn invalidate(
        &mut self,
        captures: impl IntoIterator<Item = u64>,
        code: CuResult,
    ) -> CuResult {
        for id in captures {
            let Some(capture) = self.captures.active.get_mut(&id) else { continue };
            if std::mem::replace(&mut capture.is_valid, false) && self.checks.is_on() {
                let name = code.name().unwrap_or_default();
                let (call, origin) = (self.captures.call, capture.origin);
                let detail = format!(
                    "{call} invalidated the capture that began on stream {origin} ({name})"
                );
                self.checks
                    .report(Violation::new(ViolationKind::CaptureUnsafe).with_detail(detail));
            }
        }
        code
    }

    /// The captures that streams of a context take part in whose kind `matches` accepts.
    fn captures_on(&self, context: usize, matches: impl Fn(StreamKind) -> bool) -> Vec<u64> {
        let takes_part = |id: &u64| {
            let stream = self.streams.get(*id);
            stream.is_some_and(|stream| stream.context == context && matches(stream.kind))
        };
        let captures = self.captures.active.iter();
        captures
            .filter(|(_, capture)| capture.ends.keys().any(takes_part))
            .map(|(&id, _)| id)
            .collect()
    }

    /// For the legacy stream, the captures that its use would implicitly wait for.
    fn captures_before_legacy(&self, id: u64) -> Vec<u64> {
        match self.streams.get(id) {
            Some(stream) if stream.kind == StreamKind::Legacy => {
                self.captures_on(stream.context, |kind| kind == StreamKind::Blocking)
            }
            _ => Vec::new(),
        }
    }

    /// Refuses the use of the legacy stream while a blocking stream of its context is being
    /// captured.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_IMPLICIT`.
    pub(crate) fn admit_legacy_stream(&mut self, id: u64) -> Result<(), CuResult> {
        if self.captures.active.is_empty() {
            return Ok(());
        }
        match self.captures_before_legacy(id) {
            captures if captures.is_empty() => Ok(()),
            captures => Err(self.invalidate(captures, CuResult::STREAM_CAPTURE_IMPLICIT)),
        }
    }

    /// Refuses to wait for a whole context, or to record it, while one of its streams is being
    /// captured.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_UNSUPPORTED`.
    pub(crate) fn check_context(&mut self, context: usize) -> Result<(), CuResult> {
        match self.captures_on(context, |_| true) {
            captures if captures.is_empty() => Ok(()),
            captures => Err(self.invalidate(captures, CuResult::STREAM_CAPTURE_UNSUPPORTED)),
        }
    }

    /// The capture status of a stream.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_IMPLICIT` for the legacy stream while a blocking stream of its context is
    /// being captured.
    pub(crate) fn capture_status(&self, id: u64) -> Result<CuCaptureStatus, CuResult> {
        if self.captures_before_legacy(id).is_empty() {
            Ok(self.captures.status_of(id))
        } else {
            Err(CuResult::STREAM_CAPTURE_IMPLICIT)
        }
    }

    /// Adds work to the graph if the stream is being captured; returns the work if not.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_INVALIDATED` if the capture is invalid, `NOT_SUPPORTED` for work that cannot
    /// be repeated.
    pub(crate) fn capture_work(&mut self, id: u64, work: Work) -> Result<Option<Work>, CuResult> {
        if self.captures.active.is_empty() {
            return Ok(Some(work));
        }
        let of = self.captures.of(id);
        let Some(capture) = of.and_then(|of| self.captures.active.get_mut(&of)) else {
            return Ok(Some(work));
        };
        if !capture.is_valid {
            return Err(CuResult::STREAM_CAPTURE_INVALIDATED);
        }
        let ends = capture.ends.entry(id).or_default();
        let node = capture.graph.add(work, ends)?;
        *ends = Ends::from([node]);
        Ok(None)
    }

    /// The captured nodes that an event recorded on a stream now waits for, if the stream is being
    /// captured.
    ///
    /// # Errors
    /// `STREAM_CAPTURE_INVALIDATED` if the capture is invalid.
    pub(crate) fn capture_record(&self, id: u64) -> Result<Option<Captured>, CuResult> {
        let Some(of) = self.captures.of(id) else { return Ok(None) };
        let Some(capture) = self.captures.active.get(&of) else { return Ok(None) };
        if !capture.is_valid {
            return Err(CuResult::STREAM_CAPTURE_INVALIDATED);
        }
        let ends = capture.ends.get(&id).cloned().unwrap_or_default();
        Ok(Some(Captured { capture: of, ends }))
    }

    /// Makes a stream wait for an event if one of them belongs to a capture; returns whether that
    /// is the case. A stream that waits for a captured event joins the capture.
    ///
    /// # Errors
    /// Those of CUDA for dependencies between captured work and other work, which invalidate the
    /// capture.
    pub(crate) fn capture_wait(&mut self, id: u64, event: u64) -> Result<bool, CuResult> {
        let event = self.events.get(&event).ok_or(CuResult::INVALID_HANDLE)?;
        let (captured, is_marked) = (event.captured.clone(), event.time.is_some());
        let mine = self.captures.of(id);
        let Some(captured) = captured else {
            return match mine {
                // The graph would depend on work outside of it.
                Some(mine) if is_marked => {
                    Err(self.invalidate([mine], CuResult::STREAM_CAPTURE_ISOLATION))
                }
                Some(_) => Ok(true),
                None => Ok(false),
            };
        };
        let theirs = self.captures.of_event(&captured)?;
        if self.streams.get(id).is_some_and(|stream| stream.kind == StreamKind::Legacy) {
            return Err(self.invalidate([theirs], CuResult::STREAM_CAPTURE_IMPLICIT));
        }
        if let Some(mine) = mine.filter(|&mine| mine != theirs) {
            return Err(self.invalidate([mine, theirs], CuResult::STREAM_CAPTURE_MERGE));
        }
        let capture = self.captures.active.get_mut(&theirs).ok_or(CuResult::INVALID_VALUE)?;
        if !capture.is_valid {
            return Err(CuResult::STREAM_CAPTURE_INVALIDATED);
        }
        capture.ends.entry(id).or_default().extend(captured.ends);
        Ok(true)
    }

    /// Removes a destroyed stream from its capture; a capture that began on it ends.
    pub(crate) fn remove_from_captures(&mut self, id: u64) {
        self.captures.active.retain(|_, capture| capture.origin != id);
        if let Some(of) = self.captures.of(id)
            && let Some(capture) = self.captures.active.get_mut(&of)
        {
            capture.ends.remove(&id);
        }
    }
}
