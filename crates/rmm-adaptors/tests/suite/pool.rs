//! Tests of the pool on one thread: sizes, limits, growth, reuse, trimming, errors.

use std::alloc::Layout;
use std::collections::HashSet;

use rmm_core::{
    AnyResource, CudaStream, DeviceAccessible, DevicePtr, ErrorKind, Resource, StreamRef,
};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Fault, Machine};
use rmm_sys::CuResult;

use crate::fixtures::{pool, pool_on};
use crate::support::{MIB, Pool, free, keep_busy, layout, mib, read, stream, write};

#[test]
fn freed_memory_is_reused_on_its_stream_at_once() {
    let (machine, _entered, pool, [stream]) = pool(|builder| builder);
    let first = pool.allocate(&stream, layout(1000)).unwrap();
    keep_busy(&machine, &stream);
    free(&pool, &stream, first, 1000);
    let calls = machine.calls();
    let second = pool.allocate(&stream, layout(1000)).unwrap();
    assert_eq!(first, second);
    assert_eq!(machine.calls(), calls, "reuse on one stream asks the driver for nothing");
    free(&pool, &stream, second, 1000);
}

#[test]
fn another_stream_gets_other_memory_while_some_is_free() {
    let (machine, _entered, pool, [a, b]) = pool(|builder| builder);
    let first = pool.allocate(&a, layout(1000)).unwrap();
    keep_busy(&machine, &a);
    free(&pool, &a, first, 1000);
    let second = pool.allocate(&b, layout(1000)).unwrap();
    assert_ne!(first, second);
    assert_eq!(pool.statistics().stream_waits, 0);
    free(&pool, &b, second, 1000);
}

#[test]
fn another_stream_gets_the_same_memory_once_it_is_idle() {
    let (machine, _entered, pool, [a, b]) =
        pool(|builder| builder.initial_size(mib(2)).maximum_size(mib(2)));
    let first = pool.allocate(&a, layout(2 * MIB)).unwrap();
    keep_busy(&machine, &a);
    free(&pool, &a, first, 2 * MIB);
    a.synchronize().unwrap();
    let second = pool.allocate(&b, layout(2 * MIB)).unwrap();
    assert_eq!(first, second);
    assert_eq!(pool.statistics().stream_waits, 0, "the pool found out by asking");
    free(&pool, &b, second, 2 * MIB);
}

#[test]
fn a_full_pool_makes_a_stream_wait_before_it_fails() {
    let (machine, _entered, pool, [a, b]) = pool(|builder| builder.maximum_size(mib(2)));
    let first = pool.allocate(&a, layout(2 * MIB)).unwrap();
    keep_busy(&machine, &a);
    free(&pool, &a, first, 2 * MIB);
    let second = pool.allocate(&b, layout(2 * MIB)).unwrap();
    assert_eq!(first, second);
    let statistics = pool.statistics();
    assert_eq!((statistics.stream_waits, statistics.host_waits), (1, 0));
    // The wait is real: b cannot run ahead of a.
    keep_busy(&machine, &b);
    b.synchronize().unwrap();
    assert!(a.is_idle().unwrap());
    free(&pool, &b, second, 2 * MIB);
    machine.assert_no_violations();
}

#[test]
fn one_wait_orders_all_frees_of_the_other_stream() {
    let (machine, _entered, pool, [a, b]) = pool(|builder| builder.maximum_size(mib(8)));
    let blocks: Vec<_> = (0..8).map(|_| pool.allocate(&a, layout(MIB)).unwrap()).collect();
    keep_busy(&machine, &a);
    for &block in blocks.iter().step_by(2).chain(blocks.iter().skip(1).step_by(2)) {
        free(&pool, &a, block, MIB);
    }
    let taken: Vec<_> = (0..8).map(|_| pool.allocate(&b, layout(MIB)).unwrap()).collect();
    assert_eq!(pool.statistics().stream_waits, 1);
    for block in taken {
        free(&pool, &b, block, MIB);
    }
    machine.assert_no_violations();
}

#[test]
#[expect(clippy::many_single_char_names, reason = "three streams and two blocks")]
fn waits_are_transitive() {
    // c waits for b, which waited for a: what a freed before that is visible to c without another
    // wait.
    let (machine, _entered, pool, [a, b, c]) = pool(|builder| builder.maximum_size(mib(4)));
    let [x, y] = [3 * MIB, MIB].map(|bytes| pool.allocate(&a, layout(bytes)).unwrap());
    keep_busy(&machine, &a);
    free(&pool, &a, x, 3 * MIB);
    free(&pool, &a, y, MIB);
    let from_a = pool.allocate(&b, layout(3 * MIB)).unwrap();
    keep_busy(&machine, &b);
    free(&pool, &b, from_a, 3 * MIB);
    assert_eq!(pool.statistics().stream_waits, 1);
    let from_b = pool.allocate(&c, layout(3 * MIB)).unwrap();
    assert_eq!(pool.statistics().stream_waits, 2);
    let from_a = pool.allocate(&c, layout(MIB)).unwrap();
    assert_eq!(pool.statistics().stream_waits, 2);
    keep_busy(&machine, &c);
    c.synchronize().unwrap();
    assert!(a.is_idle().unwrap());
    free(&pool, &c, from_b, 3 * MIB);
    free(&pool, &c, from_a, MIB);
    machine.assert_no_violations();
}

#[test]
fn neighbours_of_several_streams_coalesce_before_oom() {
    let (machine, _entered, pool, []) =
        pool(|builder| builder.initial_size(mib(4)).maximum_size(mib(4)));
    let streams: Vec<_> = (0..4).map(|_| stream()).collect();
    let blocks: Vec<_> = streams.iter().map(|s| pool.allocate(s, layout(MIB)).unwrap()).collect();
    for (stream, &block) in streams.iter().zip(&blocks) {
        keep_busy(&machine, stream);
        free(&pool, stream, block, MIB);
    }
    let whole = pool.allocate(&streams[0], layout(4 * MIB)).unwrap();
    assert_eq!(pool.statistics().stream_waits, 3);
    assert_eq!(pool.statistics().host_waits, 0);
    free(&pool, &streams[0], whole, 4 * MIB);
}

#[test]
fn the_rest_of_a_coalesced_block_keeps_its_stream() {
    let (machine, _entered, pool, [a, b, c, d]) =
        pool(|builder| builder.maximum_size(mib(4)).initial_size(mib(4)));
    let [first, second] = [&a, &b].map(|stream| pool.allocate(stream, layout(2 * MIB)).unwrap());
    // More work than completes while the pool queries its events.
    for _ in 0..10 {
        keep_busy(&machine, &a);
        keep_busy(&machine, &b);
    }
    free(&pool, &a, first, 2 * MIB);
    free(&pool, &b, second, 2 * MIB);
    // c waits for both and gets a block coalesced from both. The rest was b's, and only c is
    // ordered after b.
    let fused = pool.allocate(&c, layout(3 * MIB)).unwrap();
    let rest = pool.allocate(&d, layout(MIB)).unwrap();
    keep_busy(&machine, &d);
    d.synchronize().unwrap();
    assert!(b.is_idle().unwrap(), "d got memory that b was still at work on");
    free(&pool, &c, fused, 3 * MIB);
    free(&pool, &d, rest, MIB);
}

#[test]
fn a_drained_pool_serves_its_whole_size() {
    let (machine, _entered, pool, []) =
        pool_on(Machine::builder().memory(64 * MIB).build(), |builder| {
            builder.initial_size(mib(16)).maximum_size(mib(16))
        });
    let streams: Vec<_> = (0..5).map(|_| stream()).collect();
    let mut blocks = Vec::new();
    for index in 0..200 {
        let bytes = 1000 * (index % 37 + 1);
        let stream = &streams[index % 5];
        blocks.push((pool.allocate(stream, layout(bytes)).unwrap(), bytes, stream));
    }
    for (index, &(block, bytes, stream)) in blocks.iter().enumerate() {
        if index % 3 == 0 {
            keep_busy(&machine, stream);
        }
        free(&pool, stream, block, bytes);
    }
    let whole = pool.allocate(&streams[2], layout(16 * MIB)).unwrap();
    free(&pool, &streams[2], whole, 16 * MIB);
    let statistics = pool.statistics();
    assert_eq!((statistics.live_bytes, statistics.upstream_allocations), (0, 1));
}

#[test]
fn memory_freed_on_a_destroyed_stream_is_reused() {
    let (machine, _entered, pool, [survivor]) = pool(|builder| builder.maximum_size(mib(2)));
    for _ in 0..100 {
        let gone = stream();
        let block = pool.allocate(&gone, layout(2 * MIB)).unwrap();
        keep_busy(&machine, &gone);
        free(&pool, &gone, block, 2 * MIB);
        drop(gone);
        let block = pool.allocate(&survivor, layout(2 * MIB)).unwrap();
        keep_busy(&machine, &survivor);
        free(&pool, &survivor, block, 2 * MIB);
    }
    assert_eq!(pool.statistics().host_waits, 0);
    machine.assert_no_violations();
}

#[test]
fn a_stream_with_a_reused_handle_is_a_new_stream() {
    let (machine, _entered, pool, [first]) = pool(|builder| builder);
    let handle = first.as_raw();
    let block = pool.allocate(&first, layout(MIB)).unwrap();
    keep_busy(&machine, &first);
    free(&pool, &first, block, MIB);
    drop(first);
    let second = stream();
    assert_eq!(second.as_raw(), handle, "the driver gives the handle out again");
    let other = pool.allocate(&second, layout(MIB)).unwrap();
    assert_ne!(block, other, "the first stream's work may still use it");
    free(&pool, &second, other, MIB);
}

#[test]
fn limits_hold_and_errors_explain_themselves() {
    let (_machine, _entered, pool, [stream]) =
        pool_on(Machine::builder().memory(64 * MIB).build(), |builder| {
            builder.maximum_size(mib(4))
        });
    let block = pool.allocate(&stream, layout(3 * MIB)).unwrap();
    let error = pool.allocate(&stream, layout(2 * MIB)).unwrap_err();
    assert!(error.is_out_of_memory());
    assert_eq!(error.requested(), Some(2 * MIB));
    assert_eq!(error.stream(), Some(stream.id()));
    let held = error.usage().unwrap();
    assert_eq!((held.reserved, held.live), (4 << 20, 3 << 20));
    assert_eq!((held.largest_free, held.limit), (1 << 20, Some(4 << 20)));
    let text = error.to_string();
    assert!(
        text.contains("pool could not allocate 2.0 MiB") && text.contains("limit 4.0 MiB"),
        "the text names what was asked and the limit: {text}"
    );
    free(&pool, &stream, block, 3 * MIB);
    let whole = pool.allocate(&stream, layout(4 * MIB)).unwrap();
    free(&pool, &stream, whole, 4 * MIB);
    assert_eq!(pool.statistics().peak_reserved_bytes, 4 << 20);
}

#[test]
fn unused_upstream_blocks_are_returned_for_one_that_fits() {
    let (_machine, _entered, pool, [stream]) =
        pool_on(Machine::builder().memory(16 * MIB).build(), |builder| builder);
    let blocks: Vec<_> = (0..7).map(|_| pool.allocate(&stream, layout(2 * MIB)).unwrap()).collect();
    for block in blocks {
        free(&pool, &stream, block, 2 * MIB);
    }
    // Separate upstream blocks do not coalesce: only returning them makes room.
    let large = pool.allocate(&stream, layout(12 * MIB)).unwrap();
    assert!(pool.statistics().upstream_frees > 0);
    free(&pool, &stream, large, 12 * MIB);
}

#[test]
fn trim_returns_unused_memory() {
    let (machine, _entered, pool, [stream]) =
        pool_on(Machine::builder().memory(64 * MIB).build(), |builder| builder);
    let keep = pool.allocate(&stream, layout(2 * MIB)).unwrap();
    let give = pool.allocate(&stream, layout(6 * MIB)).unwrap();
    free(&pool, &stream, give, 6 * MIB);
    stream.synchronize().unwrap();
    assert_eq!(pool.trim(0), 6 << 20);
    assert_eq!(pool.reserved_bytes(), 2 << 20);
    assert_eq!(machine.memory_in_use(0), 2 * MIB);
    free(&pool, &stream, keep, 2 * MIB);
}

#[test]
fn trim_keeps_the_given_number_of_bytes() {
    let (_machine, _entered, pool, [stream]) =
        pool_on(Machine::builder().memory(64 * MIB).build(), |builder| builder);
    let blocks = [2, 6, 4].map(|mib| (pool.allocate(&stream, layout(mib * MIB)), mib));
    for (block, mib) in blocks {
        free(&pool, &stream, block.unwrap(), mib * MIB);
    }
    stream.synchronize().unwrap();
    // Trim returns the largest upstream block that it may, then the next.
    for (keep, given, left) in [(12, 0, 12), (7, 4, 8), (7, 0, 8), (6, 2, 6), (1, 0, 6), (0, 6, 0)]
    {
        assert_eq!(pool.trim(keep << 20), given << 20, "{keep}");
        assert_eq!(pool.reserved_bytes(), left << 20, "{keep}");
    }
}

#[test]
fn the_last_handle_returns_all_memory() {
    let (machine, _entered, pool, []) =
        pool_on(Machine::builder().memory(64 * MIB).build(), |builder| {
            builder.initial_size(mib(8))
        });
    let handle = pool.clone();
    let erased = AnyResource::<DeviceAccessible>::of(&pool);
    assert_eq!(handle, pool);
    assert_eq!(erased.downcast_ref::<Pool>(), Some(&pool));
    drop((pool, handle));
    assert_eq!(machine.memory_in_use(0), 8 * MIB);
    drop(erased);
    assert_eq!(machine.memory_in_use(0), 0);
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

/// The legacy default stream is implicitly ordered with blocking streams, but only where work is
/// enqueued on it.
#[test]
fn memory_reused_on_the_legacy_stream_is_ordered_by_it() {
    let (machine, _entered, pool, []) = pool(|builder| builder.maximum_size(mib(2)));
    let [before, after] = [0; 2].map(|_| CudaStream::new().unwrap());
    let legacy = CudaStream::legacy();
    // The pool has no room for a second one.
    for size in [2 * MIB, MIB + MIB / 2] {
        let block = pool.allocate(&legacy, layout(size)).unwrap();
        write(&machine, &before, block, 1);
        free(&pool, &legacy, block, size);
        let again = pool.allocate(&legacy, layout(size)).unwrap();
        assert_eq!(block, again);
        write(&machine, &after, again, 2);
        after.synchronize().unwrap();
        machine.run_all();
        assert_eq!(read(&machine, again), 2, "the former owner's work came after");
        free(&pool, &legacy, again, size);
    }
}

/// One event serves many frees, after which their blocks are reused.
#[test]
fn cached_memory_of_the_legacy_stream_is_ordered_by_few_events() {
    let (machine, _entered, pool, []) = pool(|builder| builder.initial_size(mib(64)));
    let users = [0; 2].map(|_| CudaStream::new().unwrap());
    let legacy = CudaStream::legacy();
    let (mut addresses, mut reused) = (HashSet::new(), 0);
    for round in 0..1000 {
        let block = pool.allocate(&legacy, layout(1000)).unwrap();
        write(&machine, &users[round % 2], block, 1);
        free(&pool, &legacy, block, 1000);
        reused += usize::from(!addresses.insert(block));
    }
    assert!(reused > 800, "{reused}");
    let events = pool.statistics().events_recorded;
    assert!((5..=16).contains(&events), "{events}");
    machine.run_all();
    machine.assert_no_violations();
}

/// A blocking stream without its own work is still ordered after the legacy stream's.
#[test]
fn an_idle_blocking_stream_may_have_pending_work() {
    let (machine, _entered, pool, []) =
        pool(|builder| builder.initial_size(mib(2)).maximum_size(mib(2)));
    let blocking = CudaStream::new().unwrap();
    let other = stream();
    let block = pool.allocate(&blocking, layout(2 * MIB)).unwrap();
    write(&machine, &CudaStream::legacy(), block, 1);
    free(&pool, &blocking, block, 2 * MIB);
    let again = pool.allocate(&other, layout(2 * MIB)).unwrap();
    write(&machine, &other, again, 2);
    other.synchronize().unwrap();
    machine.run_all();
    assert_eq!(read(&machine, again), 2, "the legacy stream's work came after");
}

#[test]
fn invalid_sizes_and_requests_fail() {
    let _machine = rmm_sim::enter();
    let builder = || Pool::builder(CudaMemoryResource::new());
    for builder in [
        builder().initial_size(100),
        builder().maximum_size(100),
        builder().soft_maximum_size(1),
        builder().initial_size(mib(2)).maximum_size(mib(1)),
    ] {
        assert_eq!(
            builder.clone().build().unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{builder:?}"
        );
    }
    assert!(builder().initial_size(u64::MAX / 256 * 256).build().is_err());
    let pool = builder().build().unwrap();
    let huge = Layout::from_size_align(isize::MAX as usize / 256 * 256, 256).unwrap();
    assert!(pool.allocate(StreamRef::legacy(), huge).unwrap_err().is_out_of_memory());
    let block = pool.allocate(StreamRef::legacy(), layout(256)).unwrap();
    free(&pool, &CudaStream::legacy(), block, 256);
}

#[test]
fn growth_takes_less_when_upstream_has_less() {
    let (_machine, _entered, pool, [stream]) =
        pool_on(Machine::builder().memory(16 * MIB).build(), |builder| builder);
    let mut blocks = Vec::new();
    while let Ok(block) = pool.allocate(&stream, layout(MIB)) {
        blocks.push(block);
    }
    assert_eq!(blocks.len(), 16, "all of the device can be allocated");
    for block in blocks {
        free(&pool, &stream, block, MIB);
    }
}

#[test]
fn a_driver_error_keeps_its_code() {
    let (machine, _entered, pool, [stream]) = pool_on(Machine::new(), |builder| builder);
    machine.fail(Fault::from_nth("cuMemAlloc_v2", 1, CuResult::NOT_PERMITTED));
    let error = pool.allocate(&stream, layout(1000)).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Driver, Some(CuResult::NOT_PERMITTED)));
}

#[test]
fn blocks_lists_every_block_with_its_owner() {
    let (_machine, _entered, pool, [stream]) =
        pool_on(Machine::new(), |builder| builder.initial_size(mib(1)));
    let block = pool.allocate(&stream, layout(1000)).unwrap();
    let blocks = pool.blocks();
    assert_eq!(blocks.len(), 2);
    assert_eq!((blocks[0].is_live, blocks[0].size), (true, 1024));
    assert_eq!(DevicePtr(blocks[0].segment_base.0 + blocks[0].offset), block);
    assert_eq!(
        (blocks[1].is_live, blocks[1].size, blocks[1].owner),
        (false, (1 << 20) - 1024, None)
    );
    free(&pool, &stream, block, 1000);
    assert_eq!(pool.blocks()[0].owner, Some(stream.id()));
}

/// 8448 bytes are rounded up to the size class of 8704.
#[test]
fn a_block_without_room_for_rounding_is_undersized() {
    const BYTES: usize = 33 * 256;
    const ROUNDED: usize = 34 * 256;
    const ALL: usize = 3 * ROUNDED + BYTES;
    let machine = rmm_sim::enter();
    let builder = Pool::builder(CudaMemoryResource::new()).maximum_size(ALL as u64);
    let (pool, on) = (builder.build().unwrap(), stream());
    let blocks: Vec<DevicePtr> =
        (0..4).map(|_| pool.allocate(&on, layout(BYTES)).unwrap()).collect();
    assert!(pool.allocate(&on, layout(1)).is_err(), "there is no more");
    for block in blocks {
        free(&pool, &on, block, BYTES);
    }
    // One of the four blocks is smaller than its size class. It must not be reused for a full-sized
    // request.
    let blocks: Vec<DevicePtr> =
        (0..3).map(|_| pool.allocate(&on, layout(ROUNDED)).unwrap()).collect();
    for block in blocks {
        free(&pool, &on, block, ROUNDED);
    }
    let whole = pool.allocate(&on, layout(ALL)).unwrap();
    free(&pool, &on, whole, ALL);
    assert_eq!(pool.statistics().cached_bytes, 0);
    machine.assert_no_violations();
}
