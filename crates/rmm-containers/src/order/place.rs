//! A stream that memory was used on, as it can be reached later.
#![forbid(unsafe_code)]

use rmm_core::sys::CuResult;
use rmm_core::{Context, CudaEvent, CudaStream, Error, StreamId, StreamRef};

/// Whether waits for the stream, or on it, would become part of a graph or spoil one: it is being
/// captured, or blocks with one that is. To ask spoils nothing.
pub(crate) fn is_capturing(stream: StreamRef<'_>) -> Result<bool, Error> {
    match stream.is_capturing() {
        Err(error) if error.code() == Some(CuResult::STREAM_CAPTURE_IMPLICIT) => Ok(true),
        answer => answer,
    }
}

/// A stream at the moment of its use: default streams mean others in other contexts, and the
/// per-thread one on other threads.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    stream: CudaStream,
    /// Who the stream was then.
    id: StreamId,
    /// The context that was current then.
    context: Context,
    /// Whether the stream was being captured then.
    is_captured: bool,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.id, other.context) && self.is_captured == other.is_captured
    }
}

impl Place {
    pub(crate) fn new(stream: StreamRef<'_>, context: Context) -> Self {
        Self { stream: stream.to_owned(), id: stream.id(), context, is_captured: false }
    }

    /// As [`new`](Self::new), for a use, which becomes part of a graph if the stream is being
    /// captured.
    pub(crate) fn of_use(stream: StreamRef<'_>, context: Context, is_captured: bool) -> Self {
        Self { is_captured, ..Self::new(stream, context) }
    }

    fn is(&self, id: StreamId, context: Context) -> bool {
        self.id == id && (self.stream.own_context().is_some() || self.context == context)
    }

    /// Whether it is this stream, of this context if it is a default stream.
    pub(crate) fn is_stream(&self, stream: StreamRef<'_>, context: Context) -> bool {
        self.is(stream.id(), context)
    }

    pub(crate) fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// The stream, unless it is the default stream of another thread, which cannot be named from
    /// this one.
    pub(crate) fn reachable(&self) -> Option<StreamRef<'_>> {
        let stream = self.stream.as_stream_ref();
        (stream.id() == self.id).then_some(stream)
    }

    /// An event behind all that was enqueued on the stream so far.
    pub(crate) fn end(&self) -> Result<CudaEvent, Error> {
        let _context = self.context.enter()?;
        // Whatever is put on the legacy stream is behind the default streams of all threads: it
        // "synchronizes with all other streams in the same CUcontext except for non-blocking
        // streams" (CUDA driver API, "Stream synchronization behavior"), and the per-thread default
        // stream "will synchronize with the legacy stream". This relies on that to hold for work
        // that is pending on the stream of a thread that has ended, of which the documentation says
        // nothing. The probe `the_legacy_stream_waits_for_the_stream_of_a_thread_that_has_ended` of
        // `rmm-conformance` asks the driver. The event does not delay the host.
        self.reachable().unwrap_or(StreamRef::legacy()).record_event()
    }

    /// Whether the use became part of a graph instead of running.
    pub(crate) fn is_captured(&self) -> bool {
        self.is_captured
    }

    /// The use runs after all: the capture had ended before.
    pub(crate) fn set_real(&mut self) {
        self.is_captured = false;
    }

    /// As [`is_capturing`], for this stream now, whatever it was at the moment of its use.
    pub(crate) fn is_capturing(&self) -> Result<bool, Error> {
        let _context = self.context.enter()?;
        // The legacy stream blocks with the default streams of all threads.
        is_capturing(self.reachable().unwrap_or(StreamRef::legacy()))
    }

    /// Whether the use became part of a graph, and the stream is still being captured as far as can
    /// be told.
    pub(crate) fn is_being_captured(&self) -> bool {
        self.is_captured && self.is_capturing().unwrap_or(true)
    }

    /// Waits on the host until all that was enqueued on the stream so far is done.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        let _context = self.context.enter()?;
        match self.reachable() {
            Some(stream) => stream.synchronize(),
            None => self.end()?.synchronize(),
        }
    }
}
