//! Tests of prefetching on allocation, and of its failure.

use rmm_adaptors::{
    CallbackMemoryResource, FallbackMemoryResource, PoolMemoryResource, PrefetchResourceAdaptor,
};
use rmm_core::{AnyResource, CudaStream, Resource, StreamFlags, StreamRef, SynchronousResource};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};
use rmm_sim::{Fault, Machine, Schedule};
use rmm_sys::CuResult;

use super::scripted::free_sync;
use crate::support::{free, layout};

const PREFETCH: &str = "cuMemPrefetchAsync_v2";

/// Prefetches and host waits so far.
fn calls(machine: &Machine) -> [u64; 2] {
    let counts = machine.call_counts();
    [PREFETCH, "cuStreamSynchronize"].map(|wanted| {
        counts.iter().find(|(name, _)| *name == wanted).map_or(0, |&(_, count)| count)
    })
}

#[test]
fn every_block_is_prefetched_in_stream_order() {
    let machine = rmm_sim::enter();
    let resource = PrefetchResourceAdaptor::new(ManagedMemoryResource::new());
    let stream = CudaStream::new().unwrap();
    let block = resource.allocate(&stream, layout(1000)).unwrap();
    assert_eq!(calls(&machine), [1, 0]);
    free(&resource, &stream, block, 1000);
    let [_, waits] = calls(&machine);
    let block = resource.allocate_sync(layout(1000)).unwrap();
    assert_eq!(calls(&machine), [2, waits + 1], "it was waited for");
    free_sync(&resource, block, layout(1000));
    machine.assert_no_violations();
}

#[test]
fn memory_that_never_migrates_costs_no_call() {
    let machine = rmm_sim::enter();
    let stream = CudaStream::new().unwrap();
    let prefetches = |resource: AnyResource| {
        let before = calls(&machine);
        let block = resource.allocate(&stream, layout(1000)).unwrap();
        let [prefetches, _] = calls(&machine);
        free(&resource, &stream, block, 1000);
        prefetches - before[0]
    };
    let pool = |upstream: AnyResource| PoolMemoryResource::builder(upstream).build().unwrap();
    let over = PrefetchResourceAdaptor::<AnyResource>::new;
    let device: AnyResource = AnyResource::new(pool(AnyResource::new(CudaMemoryResource::new())));
    let managed: AnyResource =
        AnyResource::new(pool(AnyResource::new(ManagedMemoryResource::new())));
    // An adaptor over two kinds of memory cannot know which block is which.
    let both: AnyResource =
        AnyResource::new(FallbackMemoryResource::new(device.clone(), managed.clone()));
    let (one, same) = (device.clone(), device.clone());
    let allocate = move |stream: StreamRef<'_>, layout| one.allocate(stream, layout);
    let deallocate = move |stream: StreamRef<'_>, pointer, layout| {
        // SAFETY: it was allocated by the other function, with this layout.
        unsafe { same.deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are those of a resource.
    let callback = unsafe { CallbackMemoryResource::new(allocate, deallocate) };
    let of = |upstream: AnyResource| prefetches(AnyResource::new(over(upstream)));
    assert_eq!([of(device), of(managed), of(both), of(AnyResource::new(callback))], [0, 1, 1, 1]);
    machine.assert_no_violations();
}

#[test]
fn a_block_is_prefetched_on_its_stream_only() {
    let _machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let resource = PrefetchResourceAdaptor::new(ManagedMemoryResource::new());
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).unwrap();
    let block = resource.allocate(&stream, layout(1000)).unwrap();
    assert!(StreamRef::legacy().is_idle().unwrap());
    assert!(!stream.is_idle().unwrap(), "it has the block moved");
    free(&resource, &stream, block, 1000);
}

/// In RMM, a block whose prefetch failed leaked.
#[test]
fn a_block_whose_prefetch_fails_is_freed() {
    let machine = rmm_sim::enter();
    let pool = PoolMemoryResource::builder(ManagedMemoryResource::new()).build().unwrap();
    let resource = PrefetchResourceAdaptor::new(pool.clone());
    let stream = CudaStream::new().unwrap();
    machine.fail(Fault::from_nth(PREFETCH, 1, CuResult::UNKNOWN));
    let error = resource.allocate(&stream, layout(1000)).unwrap_err();
    assert_eq!(error.code(), Some(CuResult::UNKNOWN));
    resource.allocate_sync(layout(1000)).unwrap_err();
    assert_eq!(pool.statistics().live_bytes, 0);
    machine.clear_faults();
    let block = resource.allocate(&stream, layout(1000)).unwrap();
    free(&resource, &stream, block, 1000);
}
