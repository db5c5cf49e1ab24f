//! A stream as it was when memory was used on it.
#![forbid(unsafe_code)]

use rmm_core::sys::CuResult;
use rmm_core::{Context, CudaEvent, CudaStream, Error, StreamId, StreamRef};

/// Whether a wait for the stream, or on it, would become part of a graph or invalidate one: the
/// stream is being captured, or synchronizes implicitly with one that is. The query leaves captures
/// intact.
pub(crate) fn is_capturing(stream: StreamRef<'_>) -> Result<bool, Error> {
    match stream.is_capturing() {
        Err(error) if error.code() == Some(CuResult::STREAM_CAPTURE_IMPLICIT) => Ok(true),
        answer => answer,
    }
}

/// A stream at the time of a use. The handle of a default stream denotes another stream in another
/// context and, for the per-thread one, on another thread.
#[derive(Clone, Debug)]
pub(crate) struct StreamSnapshot {
    stream: CudaStream,
    /// The stream that the handle denoted.
    id: StreamId,
    /// The context that was current.
    context: Context,
    /// Whether the stream was being captured.
    is_captured: bool,
}

impl PartialEq for StreamSnapshot {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.id, other.context) && self.is_captured == other.is_captured
    }
}

impl StreamSnapshot {
    pub(crate) fn new(stream: StreamRef<'_>, context: Context) -> Self {
        Self { stream: stream.to_owned(), id: stream.id(), context, is_captured: false }
    }

    /// A stream as it is when it uses the memory. The use is recorded into a graph if the stream is
    /// being captured.
    pub(crate) fn of_use(stream: StreamRef<'_>, context: Context, is_captured: bool) -> Self {
        Self { is_captured, ..Self::new(stream, context) }
    }

    fn is(&self, id: StreamId, context: Context) -> bool {
        self.id == id && (self.stream.own_context().is_some() || self.context == context)
    }

    /// Whether this is `stream`; a default stream is meant in `context`.
    pub(crate) fn denotes(&self, stream: StreamRef<'_>, context: Context) -> bool {
        self.is(stream.id(), context)
    }

    pub(crate) fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// The stream, unless it is the per-thread default stream of another thread, which has no
    /// handle on this one.
    pub(crate) fn reachable(&self) -> Option<StreamRef<'_>> {
        let stream = StreamRef::from(&self.stream);
        (stream.id() == self.id).then_some(stream)
    }

    /// Records an event after all work enqueued on the stream so far.
    pub(crate) fn record_end(&self) -> Result<CudaEvent, Error> {
        let _context = self.context.enter()?;
        // An event on the legacy stream is ordered after the default streams of all threads: it
        // "synchronizes with all other streams in the same CUcontext except for non-blocking
        // streams" (CUDA driver API, "Stream synchronization behavior"), and the per-thread default
        // stream "will synchronize with the legacy stream". The documentation does not say whether
        // this holds for pending work of a thread that has ended; the probe
        // `the_legacy_stream_waits_for_the_stream_of_a_thread_that_has_ended` of `rmm-conformance`
        // asks the driver. The event does not block the host.
        self.reachable().unwrap_or(StreamRef::legacy()).record_event()
    }

    /// Whether the use was recorded into a graph instead of running.
    pub(crate) fn is_captured(&self) -> bool {
        self.is_captured
    }

    /// The capture had ended before the work was enqueued: the work runs.
    pub(crate) fn mark_not_captured(&mut self) {
        self.is_captured = false;
    }

    /// As the function [`is_capturing`], for the state of this stream now.
    pub(crate) fn is_capturing(&self) -> Result<bool, Error> {
        let _context = self.context.enter()?;
        // The legacy stream synchronizes with the default streams of all threads.
        is_capturing(self.reachable().unwrap_or(StreamRef::legacy()))
    }

    /// Whether the use was recorded into a graph and the stream is still being captured, or the
    /// driver cannot say.
    pub(crate) fn is_being_captured(&self) -> bool {
        self.is_captured && self.is_capturing().unwrap_or(true)
    }

    /// Waits on the host for all work enqueued on the stream so far.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        let _context = self.context.enter()?;
        match self.reachable() {
            Some(stream) => stream.synchronize(),
            None => self.record_end()?.synchronize(),
        }
    }
}
