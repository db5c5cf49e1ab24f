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

/// A pool, and a client of it.
fn shared_pool(maximum: u64) -> (PoolMemoryResource, Client) {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let pool = builder.maximum_size(maximum).build().expect("a pool");
    let resource = Pool(ResourceHandle::handle_of(AnyResource::of(&pool)));
    (pool, Client::new(0, resource.0))
}

/// It is one stream, so the pool need not grow.
#[test]
fn memory_that_is_still_used_goes_to_others_on_the_stream() {
    let _test = Test::begin();
    let (pool, client) = shared_pool(1 << 30);
    let (own, layout) = (Stream::legacy(), layout(8 * MIB));
    let mut first = None;
    for _ in 0..10 {
        let block = client.allocate(&own, 8 * MIB);
        assert_eq!(*first.get_or_insert(block), block);
        own.keep_busy(block);
        free(block);
        let pointer = pool.allocate(StreamRef::legacy(), layout).expect("memory");
        assert_eq!(pointer, DevicePtr::new(block.addr() as u64));
        own.keep_busy(block);
        // SAFETY: allocated above; its use comes before in the order of the stream.
        unsafe { pool.deallocate(StreamRef::legacy(), pointer, layout) };
    }
}

/// Other users of the pool may leave uses of blocking streams to the implicit order.
#[test]
fn memory_goes_in_order_between_a_client_and_others() {
    let _test = Test::begin();
    let (pool, client) = shared_pool(2 << 20);
    let (own, [first, second]) = (Stream::legacy(), [(); 2].map(|()| Stream::blocking()));
    let layout = layout(2 * MIB);
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

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 256).expect("a layout")
}
