//! Blocks that are moved at once, and given back where they can not be.

use rmm_adaptors::{PoolMemoryResource, PrefetchResourceAdaptor};
use rmm_core::{CudaStream, Resource, StreamFlags, StreamRef, SyncResource};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};
use rmm_sim::{Fault, Machine, Schedule};
use rmm_sys::CuResult;

use super::scripted::free_sync;
use crate::short::{free, layout};

const PREFETCH: &str = "cuMemPrefetchAsync_v2";

/// Prefetches and waits of the host so far.
fn calls(machine: &Machine) -> [u64; 2] {
    let counts = machine.call_counts();
    [PREFETCH, "cuStreamSynchronize"].map(|wanted| {
        counts.iter().find(|(name, _)| *name == wanted).map_or(0, |&(_, count)| count)
    })
}

#[test]
fn every_block_is_moved_in_the_order_of_its_stream() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let resource = PrefetchResourceAdaptor::new(ManagedMemoryResource::new());
    let stream = CudaStream::new().unwrap();
    let block = resource.allocate(stream.as_ref(), layout(1000)).unwrap();
    assert_eq!(calls(&machine), [1, 0]);
    free(&resource, &stream, block, 1000);
    let [_, waits] = calls(&machine);
    let nothing = resource.allocate(stream.as_ref(), layout(0)).unwrap();
    free(&resource, &stream, nothing, 0);
    assert_eq!(calls(&machine), [1, waits]);
    let block = resource.allocate_sync(layout(1000)).unwrap();
    assert_eq!(calls(&machine), [2, waits + 1], "it was waited for");
    free_sync(&resource, block, layout(1000));
    // Other memory is where it is.
    let device = PrefetchResourceAdaptor::new(CudaMemoryResource::new());
    let block = device.allocate(stream.as_ref(), layout(1000)).unwrap();
    free(&device, &stream, block, 1000);
    machine.assert_no_violations();
}

#[test]
fn a_block_is_moved_on_its_own_stream_and_no_other() {
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
    let _entered = machine.enter();
    let resource = PrefetchResourceAdaptor::new(ManagedMemoryResource::new());
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).unwrap();
    let block = resource.allocate(stream.as_ref(), layout(1000)).unwrap();
    assert!(StreamRef::legacy().is_idle().unwrap());
    assert!(!stream.as_ref().is_idle().unwrap(), "it has the block moved");
    free(&resource, &stream, block, 1000);
}

/// H17: a block whose prefetch failed was lost.
#[test]
fn a_block_that_can_not_be_moved_goes_back() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let pool = PoolMemoryResource::builder(ManagedMemoryResource::new()).build().unwrap();
    let resource = PrefetchResourceAdaptor::new(pool.clone());
    let stream = CudaStream::new().unwrap();
    machine.fail(Fault::from_nth(PREFETCH, 1, CuResult::UNKNOWN));
    let error = resource.allocate(stream.as_ref(), layout(1000)).unwrap_err();
    assert_eq!(error.code(), Some(CuResult::UNKNOWN));
    resource.allocate_sync(layout(1000)).unwrap_err();
    assert_eq!(pool.statistics().live_bytes, 0);
    machine.clear_faults();
    let block = resource.allocate(stream.as_ref(), layout(1000)).unwrap();
    free(&resource, &stream, block, 1000);
}
