//! A stream that memory was used on, as it can be reached later.
#![forbid(unsafe_code)]

use rmm_core::{Context, CudaEvent, CudaStream, Error, StreamId, StreamRef};

/// A stream at the moment of its use: default streams mean others in other contexts, and the per-thread one on other threads.
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

    /// As [`new`](Self::new), for a use, which may become part of a graph.
    pub(crate) fn of_use(stream: StreamRef<'_>, context: Context) -> Self {
        // A stream that can not be asked takes part in no capture: it blocks with one that does.
        let is_captured = stream.is_capturing().unwrap_or(false);
        Self { is_captured, ..Self::new(stream, context) }
    }

    fn is(&self, id: StreamId, context: Context) -> bool {
        self.id == id && (self.stream.context().is_some() || self.context == context)
    }

    /// Whether it is this stream, of this context if it is a default stream.
    pub(crate) fn is_stream(&self, stream: StreamRef<'_>, context: Context) -> bool {
        self.is(stream.id(), context)
    }

    pub(crate) fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// The stream, unless it is the default stream of another thread, which can not be named from this one.
    pub(crate) fn reachable(&self) -> Option<StreamRef<'_>> {
        let stream = self.stream.as_ref();
        (stream.id() == self.id).then_some(stream)
    }

    /// An event behind all that was enqueued on the stream so far.
    pub(crate) fn end(&self) -> Result<CudaEvent, Error> {
        let _context = self.context.enter()?;
        // Whatever is put on the legacy stream is behind the default streams of all threads. The event does not delay the host.
        self.reachable().unwrap_or(StreamRef::legacy()).record_event()
    }

    /// Whether the use became part of a graph instead of running.
    pub(crate) fn is_captured(&self) -> bool {
        self.is_captured
    }

    /// Whether the use is part of a graph that is complete: whoever launches it answers for the order of its work.
    pub(crate) fn is_in_graph(&self) -> bool {
        self.is_captured && !self.is_being_captured()
    }

    /// Whether the use became part of a graph, and the stream is still being captured as far as can be told.
    pub(crate) fn is_being_captured(&self) -> bool {
        let is_capturing = || {
            let _context = self.context.enter()?;
            self.reachable().map_or(Ok(true), StreamRef::is_capturing)
        };
        self.is_captured && is_capturing().unwrap_or(true)
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
