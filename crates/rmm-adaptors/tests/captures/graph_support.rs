//! Helpers for captures and graphs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rmm_core::{CudaStream, DevicePtr, copy, current_driver};
use rmm_sys::{CuCaptureMode, CuGraph, CuGraphExec, CuResult, Driver};

/// Serializes tests that share a process: announcing a capture affects all of them.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn driver() -> &'static Driver {
    current_driver().expect("the software driver")
}

/// An instantiated graph.
pub(crate) struct Executable(CuGraphExec);

impl Executable {
    /// Launches it on a stream.
    pub(crate) fn launch(&self, stream: &CudaStream) {
        // SAFETY: both exist; the memory stays valid as far as the pool keeps its contract, which
        // is what is tested.
        let code = unsafe { driver().cuGraphLaunch(self.0, stream.as_raw()) };
        assert_eq!(code, CuResult::SUCCESS);
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: it is owned, and not used again.
        let _ignored = unsafe { driver().cuGraphExecDestroy(self.0) };
    }
}

/// Begins a capture in the strictest mode (global).
pub(crate) fn begin(stream: &CudaStream) {
    // SAFETY: the stream exists.
    let code = unsafe { driver().cuStreamBeginCapture_v2(stream.as_raw(), CuCaptureMode::GLOBAL) };
    assert_eq!(code, CuResult::SUCCESS);
}

/// Ends a capture that must be valid.
pub(crate) fn end(stream: &CudaStream) -> Executable {
    let (mut graph, mut executable) = (CuGraph::NULL, CuGraphExec::NULL);
    // SAFETY: the stream exists, and the results are valid for writes.
    let ended = unsafe { driver().cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
    assert_eq!(ended, CuResult::SUCCESS, "the capture is spoilt");
    // SAFETY: the stream exists, and the results are valid for writes.
    let made = unsafe { driver().cuGraphInstantiateWithFlags(&raw mut executable, graph, 0) };
    assert_eq!(made, CuResult::SUCCESS);
    // SAFETY: the graph is not used again.
    let _ignored = unsafe { driver().cuGraphDestroy(graph) };
    Executable(executable)
}

/// Enqueues a fill of a block, which a graph can contain.
pub(crate) fn fill(stream: &CudaStream, pointer: DevicePtr, bytes: usize) {
    // SAFETY: the block is allocated; the order of its uses is what is tested.
    unsafe { copy::fill(pointer, 7, bytes, stream).expect("a fill") };
}
