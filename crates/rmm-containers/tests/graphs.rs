//! Containers and streams that are being captured: work recorded into a graph does not run, and is
//! not waited for.

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::{
    CudaStream, DevicePtr, DeviceResource, ErrorKind, StreamFlags, copy, current_driver,
};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
use rmm_sim::{Kernel, Machine, Schedule, ViolationKind};
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

fn begin_capture(stream: &CudaStream) {
    let mode = CuCaptureMode::GLOBAL;
    // SAFETY: the stream exists.
    let begun = unsafe { driver().cuStreamBeginCapture_v2(stream.as_raw(), mode) };
    assert_eq!(begun, CuResult::SUCCESS);
}

/// Begins a capture on another thread.
fn begin_capture_elsewhere(machine: &Machine, stream: &CudaStream) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = machine.enter();
            begin_capture(stream);
        });
    });
}

fn leaked_bytes(machine: &Machine) -> usize {
    machine.leaks().iter().map(|leak| leak.bytes).sum()
}

/// Launches a kernel that sets `bytes` bytes to 9.
fn launch_nines(machine: &Machine, stream: &CudaStream, pointer: DevicePtr, bytes: usize) {
    let kernel = Kernel::repeatable("nines", move |memory| {
        memory.write(pointer, &vec![9; bytes]).expect("the memory is there");
    });
    machine.launch(stream.as_raw(), kernel.writes(pointer, bytes)).expect("a launch");
}

/// A graph that is ready to be launched.
struct Executable(CuGraphExec);

impl Executable {
    /// Captures the work that `enqueue` enqueues on the stream.
    fn capture(stream: &CudaStream, enqueue: impl FnOnce()) -> Self {
        begin_capture(stream);
        enqueue();
        let (mut graph, mut executable) = (CuGraph::NULL, CuGraphExec::NULL);
        // SAFETY: the stream exists, and the result may be written.
        let ended = unsafe { driver().cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
        assert_eq!(ended, CuResult::SUCCESS, "the capture is intact");
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
    /// The memory that the graph uses is allocated, and no other work uses it meanwhile.
    unsafe fn run(&self, stream: &CudaStream) {
        // SAFETY: the graph and the stream exist; the rest is the caller's contract.
        let code = unsafe { driver().cuGraphLaunch(self.0, stream.as_raw()) };
        assert_eq!(code, CuResult::SUCCESS);
        stream.synchronize().expect("the graph runs");
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the graph is owned, and not used again.
        let _ignored = unsafe { driver().cuGraphExecDestroy(self.0) };
    }
}

/// Captures the work that `enqueue` enqueues on the stream into a graph that is never launched.
fn capture_only(stream: &CudaStream, enqueue: impl FnOnce()) {
    drop(Executable::capture(stream, enqueue));
}

#[test]
fn host_memory_is_usable_again_after_the_capture() {
    let machine = lazy().enter();
    let stream = stream();
    let mut vector = vector(&[0; 4], &stream);
    let mut upload = PinnedVec::from_slice(&[1, 2, 3, 4]).unwrap();
    let mut download = PinnedVec::from_slice(&[0; 4]).unwrap();
    let graph = Executable::capture(&stream, || {
        vector.copy_from(upload.device_slice()).unwrap();
        download.copy_from_device(vector.as_slice(), &stream).unwrap();
        let refused = download.as_slice().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "and the capture is intact");
    });
    for round in 0..3 {
        upload.as_mut_slice().unwrap()[0] = round;
        assert_eq!(download.as_slice().unwrap()[0], round.saturating_sub(1));
        // SAFETY: the memory is allocated, and only the graph uses it until it is complete.
        unsafe { graph.run(&stream) };
        assert_eq!(download.as_slice().unwrap(), [round, 2, 3, 4]);
    }
    drop((graph, upload, download, vector, stream));
    assert_eq!(machine.leaks(), []);
    machine.assert_no_violations();
}

#[test]
fn a_capture_hides_no_earlier_work_of_its_stream() {
    let machine = lazy().enter();
    let stream = stream();
    let vector = vector(&[7; 4], &stream);
    let mut download = PinnedVec::from_slice(&[0; 4]).unwrap();
    download.copy_from_device(vector.as_slice(), &stream).unwrap();
    capture_only(&stream, || {
        download.copy_from_device(vector.as_slice(), &stream).unwrap();
    });
    assert_eq!(download.as_slice().unwrap(), [7; 4], "the copy before the capture is waited for");
    machine.assert_no_violations();
}

#[test]
fn streams_of_one_capture_are_ordered_in_its_graph() {
    let machine = lazy().enter();
    let (own, other) = (stream(), stream());
    let mut vector = vector(&[0; 4], &own);
    let mut download = PinnedVec::from_slice(&[0; 4]).unwrap();
    let graph = Executable::capture(&own, || {
        vector.fill(1).unwrap();
        vector.as_slice_mut().slice(2..).unwrap().fill_on(2, &other).unwrap();
        download.copy_from_device(vector.as_slice(), &own).unwrap();
    });
    // SAFETY: the memory is allocated, and only the graph uses it until it is complete.
    unsafe { graph.run(&own) };
    assert_eq!(download.as_slice().unwrap(), [1, 1, 2, 2]);
    vector.resize(100).unwrap();
    drop((graph, vector, download, own, other));
    assert_eq!(machine.leaks(), []);
    machine.assert_no_violations();
}

#[test]
fn borrowed_host_memory_is_released_beside_other_captures() {
    let machine = lazy().enter();
    let (own, captured) = (stream(), stream());
    let mut vector = vector(&[7; 4], &own);
    // Pinned memory: the driver does not wait for such copies by itself.
    let mut pinned = PinnedVec::from_slice(&[1; 4]).unwrap();
    begin_capture_elsewhere(&machine, &captured);
    vector.copy_to_slice_on(pinned.as_mut_slice().unwrap(), &own).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [7; 4]);
    pinned.as_mut_slice().unwrap().fill(8);
    vector.copy_from_slice(pinned.as_slice().unwrap()).unwrap();
    pinned.as_mut_slice().unwrap().fill(9);
    assert_eq!(vector.to_vec_on(&own).unwrap(), [8; 4]);
}

#[test]
fn a_blocking_read_on_a_captured_stream_is_an_error() {
    let _machine = lazy().enter();
    let stream = stream();
    let vector = vector(&[7; 4], &stream);
    begin_capture(&stream);
    let refused = vector.to_vec_on(&stream).unwrap_err();
    assert_eq!(refused.code(), Some(CuResult::STREAM_CAPTURE_UNSUPPORTED));
}

/// Captures both streams while work of `other` still runs on a vector, and calls `within` with the
/// vector during the capture.
fn capture_during_work(
    machine: &Machine,
    (own, other): (&CudaStream, &CudaStream),
    resource: &impl DeviceResource,
    within: impl FnOnce(DeviceUVector<u32>) -> Option<DeviceUVector<u32>>,
) {
    let mut vector = DeviceUVector::uninit_in(4, own, resource).expect("there is memory");
    let used = vector.use_on_mut(other).expect("it is ordered");
    launch_nines(machine, other, used.as_ptr(), used.bytes());
    drop(used);
    let mut left = None;
    capture_only(own, || {
        other.wait_for(own).expect("both are in one capture");
        vector.fill(1).expect("it is captured");
        left = within(vector);
    });
    drop(left);
    let mut next = DeviceUVector::uninit_in(4, own, resource).expect("there is memory");
    next.fill(2).expect("it is enqueued");
    other.synchronize().expect("the work is done");
    assert_eq!(
        next.to_vec_on(own).expect("a copy"),
        [2; 4],
        "the work ran before the fill, or used other memory"
    );
    machine.assert_no_violations();
}

#[test]
fn a_wait_recorded_into_a_graph_does_not_order_other_work() {
    let machine = lazy().enter();
    let (own, other) = (stream(), stream());
    let resource = CudaAsyncMemoryResource::new().unwrap();
    capture_during_work(&machine, (&own, &other), &resource, Some);
    capture_during_work(&machine, (&own, &other), &resource, |mut vector| {
        let elsewhere = stream();
        for refused in [vector.wait_for_other_streams(), vector.set_stream(&elsewhere)] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
        }
        assert_eq!(elsewhere.is_capturing().ok(), Some(false));
        Some(vector)
    });
    assert_eq!(leaked_bytes(&machine), 0);
}

#[test]
fn memory_used_on_a_captured_stream_is_leaked() {
    let machine = lazy().enter();
    let (own, other) = (stream(), stream());
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().unwrap();
    capture_during_work(&machine, (&own, &other), &pool, |vector| {
        drop(vector);
        None
    });
    let statistics = pool.statistics();
    assert_eq!(statistics.allocations - statistics.frees, 1);
}

#[test]
fn a_vector_used_within_a_capture_only_is_freed_after_it() {
    let machine = lazy().enter();
    let (own, other) = (stream(), stream());
    let mut vector = vector(&[0; 4], &own);
    capture_only(&own, || {
        vector.as_slice_mut().fill_on(1, &other).unwrap();
        vector.wait_for_other_streams().unwrap();
    });
    drop(vector);
    assert_eq!(leaked_bytes(&machine), 0);
    machine.assert_no_violations();
}

#[test]
fn an_open_use_that_began_in_a_capture_lasts_beyond_it() {
    let machine = lazy().enter();
    let (own, other) = (stream(), stream());
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let mut vector = DeviceUVector::<u32>::uninit_in(4, &own, &resource).unwrap();
    let mut pinned = PinnedVec::from_slice(&[0u8; 4]).unwrap();
    // A wait recorded into the graph would not order the work before the capture.
    own.synchronize().unwrap();
    let (mut used, mut staged) = (None, None);
    capture_only(&own, || {
        used = Some(vector.use_on_mut(&other).unwrap());
        staged = Some(pinned.device_slice_mut().into_use_on(&other).unwrap());
        own.wait_for(&other).unwrap();
    });
    let (used, staged) = (used.unwrap(), staged.unwrap());
    launch_nines(&machine, &other, used.as_ptr(), used.bytes());
    // SAFETY: both have 4 bytes, and both values are for this stream.
    unsafe { copy::device_to_device(staged.as_ptr(), used.as_ptr(), 4, &other) }.unwrap();
    drop((used, staged));
    drop(vector);
    let mut next = DeviceUVector::uninit_in(4, &own, &resource).unwrap();
    next.fill(2).unwrap();
    assert_eq!(next.to_vec_on(&own).unwrap(), [2; 4]);
    assert_eq!(pinned.as_slice().unwrap(), [9; 4]);
    machine.assert_no_violations();
}

#[test]
fn accessing_a_host_vector_invalidates_no_capture() {
    let machine = lazy().enter();
    let (first, second) = (stream(), stream());
    let (left, right) = (vector(&[7; 2], &first), vector(&[8; 2], &second));
    let mut pinned = PinnedVec::from_slice(&[0; 4]).unwrap();
    let copy_left = |pinned: &mut PinnedVec<u32>| {
        let mut half = pinned.device_slice_mut().slice(..2).unwrap();
        half.copy_from_on(left.as_slice(), &first).unwrap();
    };
    copy_left(&mut pinned);
    capture_only(&second, || {
        let mut half = pinned.device_slice_mut().slice(2..).unwrap();
        half.copy_from_on(right.as_slice(), &second).unwrap();
        assert_eq!(pinned.as_slice().unwrap_err().kind(), ErrorKind::Unsupported);
    });
    copy_left(&mut pinned);
    begin_capture_elsewhere(&machine, &stream());
    assert_eq!(pinned.as_slice().unwrap()[..2], [7; 2], "beside a capture of another thread");
    machine.assert_no_violations();
}

#[test]
fn a_copy_refused_by_a_capture_keeps_uses_pending() {
    let machine = lazy().enter();
    let (own, other) = (stream(), stream());
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let mut vector = DeviceUVector::<u32>::uninit_in(4, &own, &resource).unwrap();
    let used = vector.use_on_mut(&other).unwrap();
    launch_nines(&machine, &other, used.as_ptr(), used.bytes());
    drop(used);
    begin_capture(&own);
    other.wait_for(&own).expect("both are in one capture");
    assert!(vector.to_vec_on(&own).is_err(), "the stream cannot be waited for");
    let mut graph = CuGraph::NULL;
    // SAFETY: the stream exists, and the result may be written.
    let ended = unsafe { driver().cuStreamEndCapture(own.as_raw(), &raw mut graph) };
    assert_eq!(ended, CuResult::STREAM_CAPTURE_INVALIDATED, "the copy has invalidated the capture");
    drop(vector);
    let mut next = DeviceUVector::uninit_in(4, &own, &resource).unwrap();
    next.fill(2).unwrap();
    machine.run_all();
    let mut found = machine.violations();
    found.retain(|violation| violation.kind != ViolationKind::CaptureUnsafe);
    assert!(found.is_empty(), "{found:?}");
}
