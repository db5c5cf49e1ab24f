//! Resources while streams are captured into graphs: no capture is invalidated, announced or not.

use rmm_core::{CudaStream, ErrorKind, Resource, SynchronousResource, copy, current_driver};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, PinnedHostMemoryResource};
use rmm_sys::{CuCaptureMode, CuGraph, CuResult};

use crate::every::for_each;
use crate::short::{MIB, layout, lazy, mib, stream};

/// Captures `work` into a graph that is never launched.
fn captured(stream: &CudaStream, work: impl FnOnce()) {
    let driver = current_driver().expect("the software driver");
    let mode = CuCaptureMode::GLOBAL;
    // SAFETY: the stream lives.
    let begun = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), mode) };
    assert_eq!(begun, CuResult::SUCCESS);
    work();
    let mut graph = CuGraph::NULL;
    // SAFETY: the stream lives, and the graph may be written to.
    let ended = unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
    assert_eq!(ended, CuResult::SUCCESS, "the capture is invalidated");
    // SAFETY: the graph is not used again.
    assert_eq!(unsafe { driver.cuGraphDestroy(graph) }, CuResult::SUCCESS);
}

#[test]
fn no_resource_invalidates_a_capture_elsewhere() {
    for_each(|name, _, resource| {
        let (one, other) = (stream(), stream());
        captured(&one, || {
            let block = resource.do_allocate(other.as_stream_ref(), layout(MIB, 256));
            let block = block.unwrap_or_else(|error| panic!("{name}: {error}"));
            // SAFETY: allocated above with this layout on this stream.
            unsafe { resource.do_deallocate(other.as_stream_ref(), block, layout(MIB, 256)) };
            let block = resource.allocate_sync(layout(MIB, 256));
            let block = block.unwrap_or_else(|error| panic!("{name}: {error}"));
            // SAFETY: allocated above with this layout, and not used.
            unsafe { resource.deallocate_sync(block, layout(MIB, 256)) };
        });
    });
}

#[test]
fn a_resource_may_end_during_a_capture() {
    let _machine = lazy().enter();
    let stream = stream();
    captured(&stream, || {
        let pool = CudaAsyncMemoryResource::builder().initial_size(mib(1)).build().expect("a pool");
        pool.trim(0).expect("it is trimmed");
        drop(pool);
        drop(rmm_resources::VirtualMemoryResource::new().expect("a resource"));
    });
}

#[test]
fn synchronous_calls_work_while_the_legacy_stream_is_blocked() {
    let _machine = lazy().enter();
    let pool = CudaAsyncMemoryResource::new().expect("a pool");
    let blocking = CudaStream::new().expect("a stream");
    captured(&blocking, || {
        let block = pool.allocate_sync(layout(MIB, 256)).expect("another stream serves it");
        // SAFETY: allocated above with this layout, and not used.
        unsafe { pool.deallocate_sync(block, layout(MIB, 256)) };
    });
    drop(pool);
    let per_thread = CudaStream::per_thread();
    let pool = CudaAsyncMemoryResource::new().expect("a pool");
    captured(&per_thread, || {
        let refused = pool.allocate_sync(layout(MIB, 256)).expect_err("no stream can serve it");
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn memory_freed_on_a_captured_stream_stays_the_graphs() {
    let (cuda, pinned) = (CudaMemoryResource::new(), PinnedHostMemoryResource::new());
    for resource in [&cuda as &dyn Resource, &pinned] {
        let machine = lazy().enter();
        let stream = stream();
        let block = resource.do_allocate(stream.as_stream_ref(), layout(MIB, 256)).expect("memory");
        captured(&stream, || {
            // SAFETY: the block has `MIB` bytes, and is the stream's.
            unsafe { copy::fill(block, 7, MIB, &stream) }.expect("it is captured");
            // SAFETY: allocated above with this layout; its only stream is this one.
            unsafe { resource.do_deallocate(stream.as_stream_ref(), block, layout(MIB, 256)) };
        });
        // SAFETY: the block has `MIB` bytes, and is the stream's, as in a launch of the graph.
        unsafe { copy::fill(block, 7, MIB, &stream) }.expect("the memory is there");
        stream.synchronize().expect("the memory is there");
        machine.assert_no_violations();
    }
}
