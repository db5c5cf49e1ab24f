//! Blocks of the legacy default stream: what a client does not record is work of that stream.

use std::alloc::Layout;

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{AnyResource, DevicePtr, Resource as _, StreamRef};
use rmm_resources::CudaMemoryResource;
use rmm_rs::ResourceHandle;

use super::fixtures::*;

fn events_recorded() -> u64 {
    let counts = MACHINE.call_counts();
    counts.into_iter().find(|(name, _)| *name == "cuEventRecord").map_or(0, |(_, count)| count)
}

#[test]
fn a_pair_records_no_event() {
    let _test = Test::begin();
    for spec in ["pool", "pool(cuda)"] {
        let client = Client::of_spec(spec);
        let own = Stream::legacy();
        for bytes in [512, 64 << 10, MIB, 4 * MIB] {
            let first = client.allocate(&own, bytes);
            free(first);
            let before = events_recorded();
            for _ in 0..300 {
                let block = client.allocate(&own, bytes);
                assert_eq!(block, first);
                own.fill(block, bytes);
                free(block);
            }
            assert_eq!(events_recorded(), before, "{spec}, {bytes} bytes");
        }
    }
}

#[test]
fn a_blocking_stream_that_was_recorded_is_waited_for() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let (own, others) = (Stream::legacy(), [(); 2].map(|()| Stream::blocking()));
    for round in 0..20 {
        let (block, other) = (client.allocate(&own, MIB), &others[round % 2]);
        other.wait_for(&own);
        other.fill(block, MIB);
        record(block, other);
        free(block);
        assert_eq!(is_pending(block), Some(true));
        // No work of the own stream comes after it.
        let next = client.allocate(&own, MIB);
        assert_ne!(next, block);
        free(next);
    }
}

#[test]
fn its_own_stream_needs_no_record() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let own = Stream::legacy();
    let block = client.allocate(&own, MIB);
    own.fill(block, MIB);
    record(block, &own);
    free(block);
    assert!(find(block).is_none(), "it waits for nothing");
    assert_eq!(client.allocate(&own, MIB), block);
    free(block);
}

/// Other users of the pool may leave uses of blocking streams to the implicit order.
#[test]
fn memory_goes_in_order_between_a_client_and_others() {
    let _test = Test::begin();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let pool = builder.maximum_size(2 << 20).build().expect("a pool");
    let resource = Pool(ResourceHandle::handle_of(AnyResource::of(&pool)));
    let client = Client::new(0, resource.0);
    let (own, [first, second]) = (Stream::legacy(), [(); 2].map(|()| Stream::blocking()));
    let layout = Layout::from_size_align(2 * MIB, 256).expect("a layout");
    for _ in 0..10 {
        let block = client.allocate(&own, 2 * MIB);
        own.fill(block, 2 * MIB);
        free(block);
        // It has the only memory there is.
        for stream in [&first, &second] {
            let pointer = pool.allocate(StreamRef::legacy(), layout).expect("memory");
            assert_eq!(pointer, DevicePtr::new(block.addr() as u64));
            stream.fill(block, 2 * MIB);
            // SAFETY: allocated above; the legacy stream is ordered after its use once it has work.
            unsafe { pool.deallocate(StreamRef::legacy(), pointer, layout) };
        }
    }
}
