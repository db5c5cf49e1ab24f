//! Containers and streams that are captured: what becomes part of a graph is no work to wait for.

use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::{CudaStream, ErrorKind, StreamFlags, current_driver};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};
use rmm_sys::{CuCaptureMode, CuGraph, CuGraphExec, CuResult, Driver};

fn driver() -> &'static Driver {
    current_driver().expect("the software driver")
}

fn lazy() -> Machine {
    Machine::builder().memory(64 << 20).schedule(Schedule::Lazy).build()
}

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

fn vector(elements: &[u32], stream: &CudaStream) -> DeviceUVector<u32> {
    let resource = CudaMemoryResource::new();
    DeviceUVector::from_slice_in(elements, stream, &resource).expect("a vector")
}

/// A graph that is ready to be launched.
struct Executable(CuGraphExec);

impl Executable {
    /// What `enqueue` gives to the stream.
    fn capture(stream: &CudaStream, enqueue: impl FnOnce()) -> Self {
        let mode = CuCaptureMode::GLOBAL;
        // SAFETY: the stream exists.
        let begun = unsafe { driver().cuStreamBeginCapture_v2(stream.as_raw(), mode) };
        assert_eq!(begun, CuResult::SUCCESS);
        enqueue();
        let (mut graph, mut executable) = (CuGraph::NULL, CuGraphExec::NULL);
        // SAFETY: the stream exists, and the result may be written.
        let ended = unsafe { driver().cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
        assert_eq!(ended, CuResult::SUCCESS, "the capture is spoilt");
        // SAFETY: as above.
        let code = unsafe { driver().cuGraphInstantiateWithFlags(&raw mut executable, graph, 0) };
        assert_eq!(code, CuResult::SUCCESS);
        // SAFETY: the graph is not used again.
        assert_eq!(unsafe { driver().cuGraphDestroy(graph) }, CuResult::SUCCESS);
        Self(executable)
    }

    /// Launches it and waits.
    ///
    /// # Safety
    /// The memory that it uses is there, and nobody else uses it meanwhile.
    unsafe fn run(&self, stream: &CudaStream) {
        // SAFETY: both exist; the rest is the caller's contract.
        let code = unsafe { driver().cuGraphLaunch(self.0, stream.as_raw()) };
        assert_eq!(code, CuResult::SUCCESS);
        stream.synchronize().expect("the graph runs");
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: it is ours, and not used again.
        let _done = unsafe { driver().cuGraphExecDestroy(self.0) };
    }
}

#[test]
fn memory_of_the_host_is_the_host_s_again_when_the_capture_has_ended() {
    let machine = lazy();
    let _entered = machine.enter();
    let stream = stream();
    let mut vector = vector(&[0; 4], &stream);
    let mut upload = PinnedVec::from_slice(&[1, 2, 3, 4]).unwrap();
    let mut download = PinnedVec::from_slice(&[0; 4]).unwrap();
    let graph = Executable::capture(&stream, || {
        vector.copy_from(upload.device_slice()).unwrap();
        download.copy_from_device(vector.as_slice(), &stream).unwrap();
        let refused = download.as_slice().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "and the capture goes on");
    });
    for round in 0..3 {
        upload.as_mut_slice().unwrap()[0] = round;
        assert_eq!(download.as_slice().unwrap()[0], round.saturating_sub(1));
        // SAFETY: everything lives, and only the graph uses it until it is done.
        unsafe { graph.run(&stream) };
        assert_eq!(download.as_slice().unwrap(), [round, 2, 3, 4]);
    }
    drop((graph, upload, download, vector, stream));
    assert_eq!(machine.leaks(), []);
    machine.assert_no_violations();
}

#[test]
fn a_capture_hides_no_work_of_its_stream_from_before() {
    let machine = lazy();
    let _entered = machine.enter();
    let stream = stream();
    let vector = vector(&[7; 4], &stream);
    let mut download = PinnedVec::from_slice(&[0; 4]).unwrap();
    download.copy_from_device(vector.as_slice(), &stream).unwrap();
    let graph = Executable::capture(&stream, || {
        download.copy_from_device(vector.as_slice(), &stream).unwrap();
    });
    assert_eq!(download.as_slice().unwrap(), [7; 4], "the copy that was enqueued is waited for");
    drop(graph);
    machine.assert_no_violations();
}

#[test]
fn streams_of_one_capture_are_ordered_in_its_graph() {
    let machine = lazy();
    let _entered = machine.enter();
    let (own, other) = (stream(), stream());
    let mut vector = vector(&[0; 4], &own);
    let mut download = PinnedVec::from_slice(&[0; 4]).unwrap();
    let graph = Executable::capture(&own, || {
        vector.fill(1).unwrap();
        vector.as_slice_mut().slice(2..).unwrap().fill(2, &other).unwrap();
        download.copy_from_device(vector.as_slice(), &own).unwrap();
    });
    // SAFETY: everything lives, and only the graph uses it until it is done.
    unsafe { graph.run(&own) };
    assert_eq!(download.as_slice().unwrap(), [1, 1, 2, 2]);
    vector.resize(100).unwrap();
    drop((graph, vector, download, own, other));
    assert_eq!(machine.leaks(), []);
    machine.assert_no_violations();
}
