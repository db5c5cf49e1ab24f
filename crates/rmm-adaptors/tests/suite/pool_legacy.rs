//! Memory that was freed on the legacy default stream. An event on that stream has to follow before
//! its next use there, also where driver calls fail. It waits for nothing else: the pool neither
//! grows nor empties the caches of others for it.

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaStream, DevicePtr, Resource};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Fault, Machine, check};
use rmm_sys::CuResult;

use crate::fixtures::pool;
use crate::support::{MIB, Pool, free, layout, mib, write};

const KIB: usize = 1 << 10;

/// A pool with a fixed amount of memory.
fn full_pool(bytes: u64) -> Pool {
    let builder = Pool::builder(CudaMemoryResource::new());
    builder.initial_size(bytes).maximum_size(bytes).build().expect("a pool")
}

fn blocking_streams() -> [CudaStream; 2] {
    [(); 2].map(|()| CudaStream::new().expect("a stream"))
}

/// Driver calls that fail until the faults are cleared.
fn fail_always(machine: &Machine, calls: &[&str]) {
    for call in calls {
        machine.fail(Fault::from_nth(call, 1, CuResult::UNKNOWN));
    }
}

fn allocate(pool: &Pool, stream: &CudaStream, bytes: usize) -> DevicePtr {
    pool.allocate(stream, layout(bytes)).expect("a block")
}

/// Nothing but an event or a completed wait separates the work before a free from that after the
/// next allocation.
#[test]
fn a_failed_wait_for_the_device_orders_nothing() {
    check(|machine| {
        let (pool, legacy) = (full_pool(mib(8)), CudaStream::legacy());
        let [before, after] = blocking_streams();
        let others = allocate(&pool, &legacy, 7 * MIB);
        let block = allocate(&pool, &legacy, MIB);
        write(machine, &before, block, 1);
        free(&pool, &legacy, block, MIB);
        fail_always(machine, &["cuEventRecord", "cuCtxSynchronize"]);
        pool.allocate(&legacy, layout(MIB)).expect_err("nothing is known of its former use");
        machine.clear_faults();
        assert_eq!(pool.statistics().host_waits, 1, "the pool has tried to wait");
        let again = allocate(&pool, &legacy, MIB);
        assert_eq!(again, block, "the pool has no other");
        write(machine, &after, again, 2);
        free(&pool, &legacy, again, MIB);
        free(&pool, &legacy, others, 7 * MIB);
    });
}

#[test]
fn a_failed_event_makes_no_cached_block_available() {
    check(|machine| {
        let (pool, legacy) = (full_pool(mib(16)), CudaStream::legacy());
        let [before, after] = blocking_streams();
        let blocks = [(); 200].map(|()| allocate(&pool, &legacy, 256));
        for block in blocks {
            write(machine, &before, block, 1);
            free(&pool, &legacy, block, 256);
        }
        fail_always(machine, &["cuEventRecord"]);
        let mut taken = Vec::new();
        // The cache may hold blocks that were never used.
        while machine.failed_calls().is_empty() {
            taken.push(allocate(&pool, &legacy, 256));
        }
        machine.clear_faults();
        taken.push(allocate(&pool, &legacy, 256));
        for block in taken {
            write(machine, &after, block, 2);
            free(&pool, &legacy, block, 256);
        }
    });
}

#[test]
fn a_block_that_waits_for_an_event_alone_costs_no_other_stream_its_cache() {
    let (_machine, _entered, pool, [other]) =
        pool(|builder| builder.initial_size(mib(8)).maximum_size(mib(8)));
    let legacy = CudaStream::legacy();
    let held = allocate(&pool, &other, 13 * MIB / 2);
    let blocks = [(); 8].map(|()| allocate(&pool, &other, 4 * KIB));
    for block in blocks {
        free(&pool, &other, block, 4 * KIB);
    }
    let before = pool.statistics();
    assert!(before.cached_bytes >= 32 * KIB as u64, "{before:?}");
    for _ in 0..10 {
        let block = allocate(&pool, &legacy, MIB);
        free(&pool, &legacy, block, MIB);
    }
    let after = pool.statistics();
    assert_eq!(after.slow_allocations, before.slow_allocations);
    assert_eq!(after.cached_bytes, before.cached_bytes);
    assert!(after.events_recorded <= before.events_recorded + 10, "{after:?}");
    free(&pool, &other, held, 13 * MIB / 2);
}

#[test]
fn cached_blocks_are_merged_and_reused_before_the_pool_grows() {
    let (_machine, _entered, pool, []) = pool(|builder| builder.initial_size(mib(2)));
    let legacy = CudaStream::legacy();
    let blocks = [(); 32].map(|()| allocate(&pool, &legacy, 64 * KIB));
    free(&pool, &legacy, blocks[7], 64 * KIB);
    assert_eq!(pool.statistics().cached_bytes, 64 * KIB as u64);
    // No block of this size is cached.
    let smaller = allocate(&pool, &legacy, 40 * KIB);
    assert_eq!((smaller, pool.reserved_bytes()), (blocks[7], mib(2)));
}

/// What is complete would become idle memory, which does not coalesce with what the stream frees
/// beside it.
#[test]
fn the_only_stream_does_not_ask_what_is_complete() {
    check(|_| {
        let (pool, legacy) = (full_pool(mib(256)), CudaStream::legacy());
        for _ in 0..16 {
            let blocks = [(); 4].map(|()| allocate(&pool, &legacy, 48 * MIB));
            for block in blocks {
                free(&pool, &legacy, block, 48 * MIB);
            }
        }
        let statistics = pool.statistics();
        assert!(statistics.events_recorded >= 8, "{}", statistics.events_recorded);
        assert_eq!(statistics.event_queries, 0);
    });
}

/// Over virtual memory bytes count more than calls: few of them wait, so that the next request does
/// not split other blocks meanwhile.
#[test]
fn few_bytes_wait_for_an_event_where_memory_can_be_extended() {
    check(|_| {
        let upstream = VirtualMemoryResource::new().expect("virtual memory");
        let pool = PoolMemoryResource::builder(upstream).initial_size(mib(256));
        let (pool, legacy) = (pool.build().expect("a pool"), CudaStream::legacy());
        for _ in 0..64 {
            let block = pool.allocate(&legacy, layout(4 * MIB)).expect("a block");
            free(&pool, &legacy, block, 4 * MIB);
        }
        let events = pool.statistics().events_recorded;
        assert!(events >= 16, "{events} events");
    });
}
