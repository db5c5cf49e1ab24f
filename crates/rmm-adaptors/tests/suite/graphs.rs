//! Captures and graphs in short words.

use rmm_core::{CudaStream, DevicePtr, copy, current_driver};
use rmm_sys::{CuCaptureMode, CuGraph, CuGraphExec, CuResult};

/// A graph that is ready to be launched.
pub(crate) struct Executable(CuGraphExec);

impl Executable {
    /// Launches it on a stream.
    pub(crate) fn launch(&self, stream: &CudaStream) {
        // SAFETY: both exist; the memory is there as far as the pool keeps its word, which is what is tested.
        let code = unsafe { current_driver().unwrap().cuGraphLaunch(self.0, stream.as_raw()) };
        assert_eq!(code, CuResult::SUCCESS);
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: it is ours, and not used again.
        let _done = unsafe { current_driver().unwrap().cuGraphExecDestroy(self.0) };
    }
}

/// Begins a capture that forbids what it can to all threads.
pub(crate) fn begin(stream: &CudaStream) {
    let driver = current_driver().unwrap();
    // SAFETY: the stream exists.
    let code = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), CuCaptureMode::GLOBAL) };
    assert_eq!(code, CuResult::SUCCESS);
}

/// Ends a capture, which nothing has spoilt.
pub(crate) fn end(stream: &CudaStream) -> Executable {
    let driver = current_driver().unwrap();
    let (mut graph, mut executable) = (CuGraph::NULL, CuGraphExec::NULL);
    // SAFETY: the stream exists, the results may be written.
    let ended = unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
    assert_eq!(ended, CuResult::SUCCESS, "the capture is spoilt");
    // SAFETY: as above.
    let made = unsafe { driver.cuGraphInstantiateWithFlags(&raw mut executable, graph, 0) };
    assert_eq!(made, CuResult::SUCCESS);
    // SAFETY: the graph is not used again.
    let _done = unsafe { driver.cuGraphDestroy(graph) };
    Executable(executable)
}

/// Fills a block, as work that a graph can hold.
pub(crate) fn fill(stream: &CudaStream, pointer: DevicePtr, bytes: usize) {
    // SAFETY: the block is allocated; who uses it when is what is tested.
    unsafe { copy::fill(pointer, 7, bytes, stream.as_ref()).unwrap() };
}
