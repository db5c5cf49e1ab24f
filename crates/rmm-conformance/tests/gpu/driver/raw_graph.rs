//! Captures and graphs of the driver itself, which probes call without anything between.

use rmm_sys::{CuCaptureMode, CuCaptureStatus, CuGraph, CuGraphExec, CuResult};

use super::raw::{Stream, driver};

/// A capture in progress. It is ended when this is dropped: one that is left would make calls of
/// later probes fail.
pub(super) struct Capture<'a> {
    stream: &'a Stream,
    is_open: bool,
}

impl<'a> Capture<'a> {
    pub(super) fn begin(stream: &'a Stream, mode: CuCaptureMode) -> Result<Self, CuResult> {
        begin(stream, mode).result().map(|()| Self { stream, is_open: true })
    }

    /// Ends it; the graph that it made, or why there is none.
    pub(super) fn end(mut self) -> Result<Graph, CuResult> {
        self.is_open = false;
        end(self.stream)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let _made = end(self.stream);
        }
    }
}

/// The call that begins a capture.
pub(super) fn begin(stream: &Stream, mode: CuCaptureMode) -> CuResult {
    // SAFETY: the stream exists.
    unsafe { driver().cuStreamBeginCapture_v2(stream.raw(), mode) }
}

/// The call that ends a capture.
pub(super) fn end(stream: &Stream) -> Result<Graph, CuResult> {
    let mut raw = CuGraph::NULL;
    // SAFETY: the stream exists, and `raw` may be written to.
    let code = unsafe { driver().cuStreamEndCapture(stream.raw(), &raw mut raw) };
    code.result().map(|()| Graph { raw })
}

/// What a stream says of itself.
pub(super) fn status(stream: &Stream) -> Result<CuCaptureStatus, CuResult> {
    let mut status = CuCaptureStatus(u32::MAX);
    // SAFETY: the stream exists, and `status` may be written to.
    let code = unsafe { driver().cuStreamIsCapturing(stream.raw(), &raw mut status) };
    code.result().map(|()| status)
}

/// Changes the calling thread's mode; the former one.
pub(super) fn exchange(mut mode: CuCaptureMode) -> Result<CuCaptureMode, CuResult> {
    // SAFETY: `mode` may be read and written.
    let code = unsafe { driver().cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    code.result().map(|()| mode)
}

/// A graph, destroyed when this is dropped.
#[derive(PartialEq, Debug)]
pub(super) struct Graph {
    /// # Invariant
    /// Made by `end`, and not destroyed.
    raw: CuGraph,
}

impl Graph {
    pub(super) fn instantiate(&self) -> Result<Executable, CuResult> {
        let mut raw = CuGraphExec::NULL;
        // SAFETY: the graph exists, and `raw` may be written to.
        let code = unsafe { driver().cuGraphInstantiateWithFlags(&raw mut raw, self.raw, 0) };
        code.result().map(|()| Executable { raw })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by `end`, and not used again. A failure means that the driver is gone.
        let _ignored = unsafe { driver().cuGraphDestroy(self.raw) };
    }
}

/// A graph that is ready to be launched, destroyed when this is dropped.
pub(super) struct Executable {
    /// # Invariant
    /// Made by `Graph::instantiate`, and not destroyed.
    raw: CuGraphExec,
}

impl Executable {
    pub(super) fn launch(&self, stream: &Stream) -> CuResult {
        // SAFETY: both exist; probes wait for the work before the memory that it uses goes.
        unsafe { driver().cuGraphLaunch(self.raw, stream.raw()) }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: made by `Graph::instantiate`, and not used again. A failure means that the driver
        // is gone.
        let _ignored = unsafe { driver().cuGraphExecDestroy(self.raw) };
    }
}
