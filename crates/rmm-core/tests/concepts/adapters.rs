//! Adapters: `Synchronized` and `StreamBound`.

use std::alloc::Layout;

use rmm_core::{
    AnyResource, CudaStream, HostDeviceAccessible, Resource, StreamBound, Synchronized, copy,
};
use rmm_resources::CudaAsyncMemoryResource;

use rmm_sim::{Machine, Schedule};

use crate::heap::SyncHeap;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 64).expect("a valid layout")
}

#[test]
fn a_synchronized_resource_waits_for_the_stream_before_it_frees() -> Result<(), rmm_core::Error> {
    let _machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let stream = CudaStream::new()?;
    let heap = SyncHeap::new(0);
    let ordered = AnyResource::<HostDeviceAccessible>::new(Synchronized::new(heap.clone()));
    let pointer = ordered.allocate(&stream, layout(64))?;
    assert_eq!(heap.live(), 64);

    // Leave work on the stream, which the software device runs only when a thread waits for it.
    let target = CudaAsyncMemoryResource::new()?;
    let memory = target.allocate(&stream, layout(64))?;
    for _ in 0..8 {
        // SAFETY: the memory was allocated on this stream and has 64 bytes.
        unsafe { copy::fill(memory, 0, 64, &stream) }?;
    }
    assert!(!stream.is_idle()?);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { ordered.deallocate(&stream, pointer, layout(64)) };
    assert!(stream.is_idle()?, "it did not wait");
    assert_eq!(heap.live(), 0);
    // SAFETY: as above.
    unsafe { target.deallocate(&stream, memory, layout(64)) };
    Ok(())
}

#[test]
fn bound_resources_are_equal_if_resource_and_stream_are() -> Result<(), rmm_core::Error> {
    let _machine = rmm_sim::enter();
    let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
    let bound = StreamBound::new(CudaAsyncMemoryResource::new()?, stream.clone());
    assert_eq!(bound, bound.clone());
    assert_ne!(bound, StreamBound::new(bound.upstream().clone(), other));
    assert_ne!(bound, StreamBound::new(CudaAsyncMemoryResource::new()?, stream));
    Ok(())
}
