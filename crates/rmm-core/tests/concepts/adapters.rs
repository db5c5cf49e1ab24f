//! Adapters: `Synchronized` and `StreamBound`.

use std::alloc::Layout;

use rmm_core::{
    AnyResource, CudaStream, HostDeviceAccessible, Resource, StreamBound, SyncResource,
    Synchronized, copy,
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
fn a_bound_resource_allocates_for_every_stream() -> Result<(), rmm_core::Error> {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
    let bound = StreamBound::new(CudaAsyncMemoryResource::new()?, stream.clone());
    // Leave work on the stream; the allocation comes after it.
    let earlier = bound.allocate(layout(64))?;
    for _ in 0..8 {
        // SAFETY: the memory was allocated on this stream and has 64 bytes.
        unsafe { copy::fill(earlier, 0, 64, &stream) }?;
    }
    assert!(!stream.is_idle()?);
    let pointer = bound.allocate_sync(layout(64))?;
    assert!(stream.is_idle()?, "it did not wait");
    // SAFETY: the memory has 64 bytes; the allocation has completed, so that any stream may use it.
    unsafe { copy::fill(pointer, 0, 64, &other) }?;
    other.synchronize()?;
    // SAFETY: allocated above with this layout, and the use of it has completed.
    unsafe { bound.deallocate_sync(pointer, layout(64)) };
    // SAFETY: allocated above with this layout on this stream.
    unsafe { bound.deallocate(earlier, layout(64)) };
    machine.assert_no_violations();
    assert_eq!(bound, bound.clone());
    assert_ne!(bound, StreamBound::new(bound.upstream().clone(), other));
    Ok(())
}
