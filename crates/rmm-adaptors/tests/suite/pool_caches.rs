//! Tests of thread caches: what the statistics count, and where a block goes that does not fit.

use std::collections::HashMap;

use rmm_adaptors::{
    Contents, PoolMemoryResource, PoolMemoryResourceBuilder, PoolPreset, ReleasePolicy,
};
use rmm_core::{CudaStream, DevicePtr, Resource, StreamRef};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::pool_sleep;
use crate::support::{MIB, Pool, free, keep_busy, layout, mib, stream, write};

const SMALL: usize = 256;
const LARGE: usize = 2 * MIB;

fn machine() -> Machine {
    Machine::builder().memory(1 << 30).schedule(Schedule::Eager).build()
}

/// A pool with a fixed amount of memory.
fn pool(bytes: u64) -> Pool {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).check_frees(false);
    builder.initial_size(bytes).maximum_size(bytes).build().expect("a pool")
}

fn allocate(pool: &Pool, stream: &CudaStream, count: usize, bytes: usize) -> Vec<DevicePtr> {
    let block = |_| pool.allocate(stream, layout(bytes)).expect("a block");
    (0..count).map(block).collect()
}

fn free_all(pool: &Pool, stream: &CudaStream, blocks: Vec<DevicePtr>, bytes: usize) {
    for block in blocks {
        free(pool, stream, block, bytes);
    }
}

#[test]
fn the_sleep_of_another_pool_costs_no_hit() {
    let _machine = machine().enter();
    let (pool, other, user) = (pool(mib(256)), pool_sleep::pool(), stream());
    let pair = || free_all(&pool, &user, allocate(&pool, &user, 1, SMALL), SMALL);
    let hits = || pool.statistics().cached_allocations;
    (0..20).for_each(|_| pair()); // the thread has a cache then
    let before = hits();
    for _ in 0..10 {
        pool_sleep::sleep(&other, Contents::Discard).expect("it falls asleep");
        pair();
        other.wake().expect("there is memory");
    }
    assert_eq!(hits() - before, 10);
}

#[test]
fn a_large_block_evicted_from_a_cache_is_free() {
    let _machine = machine().enter();
    let pool = pool(mib(256));
    let user = stream();
    let blocks = allocate(&pool, &user, 6, LARGE);
    free_all(&pool, &user, blocks, LARGE);
    let statistics = pool.statistics();
    assert_eq!((statistics.live_bytes, statistics.cached_bytes), (0, 4 * LARGE as u64));
}

#[test]
fn a_large_block_evicted_after_its_thread_ended_is_free() {
    let machine = machine().enter();
    let pool = pool(mib(256));
    let user = stream();
    let on_a_thread = |work: &(dyn Fn() -> Vec<DevicePtr> + Sync)| -> Vec<DevicePtr> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _entered = machine.enter();
                work()
            });
            thread.join().expect("it does not panic")
        })
    };
    let left = on_a_thread(&|| {
        let mut blocks = allocate(&pool, &user, 5, LARGE);
        let left = blocks.split_off(4);
        free_all(&pool, &user, blocks, LARGE);
        left
    });
    on_a_thread(&|| {
        free_all(&pool, &user, left.clone(), LARGE);
        Vec::new()
    });
    let statistics = pool.statistics();
    assert_eq!((statistics.live_bytes, statistics.cached_bytes), (0, 4 * LARGE as u64));
}

#[test]
fn a_block_that_no_cache_may_hold_leaves_the_others_there() {
    let _machine = machine().enter();
    let (pool, user) = (pool(mib(8)), stream());
    let kept = 192 << 10; // of 256 KiB that a block in a cache may have here
    let blocks = allocate(&pool, &user, 5, kept);
    free_all(&pool, &user, blocks, kept);
    let before = pool.statistics();
    assert_eq!(before.cached_bytes, 5 * kept as u64, "nearly all that it may hold");
    for _ in 0..10 {
        let block = pool.allocate(&user, layout(MIB)).expect("a block");
        free(&pool, &user, block, MIB);
    }
    let after = pool.statistics();
    assert_eq!(after.cached_bytes, before.cached_bytes);
    let again = allocate(&pool, &user, 5, kept);
    assert_eq!(pool.statistics().cached_allocations, before.cached_allocations + 5);
    free_all(&pool, &user, again, kept);
}

/// Allocates and frees a large block, which is one of 1,000 sizes.
fn large_pair(pool: &Pool, stream: &CudaStream, number: usize) {
    let bytes = LARGE + number % 1000 * 4096;
    let block = pool.allocate(stream, layout(bytes)).expect("a block");
    free(pool, stream, block, bytes);
}

#[test]
fn large_blocks_are_cached_while_their_sizes_come_again() {
    let _machine = machine().enter();
    let (pool, user) = (pool(mib(512)), stream());
    (0..10).for_each(|_| large_pair(&pool, &user, 0));
    assert!(pool.statistics().cached_allocations > 5, "they are cached at first");
    (0..5000).for_each(|number| large_pair(&pool, &user, number));
    let before = pool.statistics();
    assert_eq!(before.cached_bytes, 0, "what is not wanted is back in the heap");
    (0..1000).for_each(|_| large_pair(&pool, &user, 0));
    let cached = pool.statistics().cached_allocations - before.cached_allocations;
    assert!(cached > 500, "{cached} of 1,000 pairs of one size");
}

/// A stream with more blocks than its cache holds: some are in the transfer cache, and their work
/// is known to be complete.
fn give(pool: &Pool, bytes: usize) -> CudaStream {
    let giver = stream();
    let blocks = allocate(pool, &giver, 1200, bytes);
    free_all(pool, &giver, blocks, bytes);
    giver
}

#[test]
fn blocks_of_a_batch_that_exceed_a_cache_are_free() {
    let _machine = machine().enter();
    let pool = pool(mib(4)); // a cache holds 512 small blocks
    let taker = stream();
    // It misses in a class of small blocks, and its cache is full of others.
    let mut held = allocate(&pool, &taker, 12, SMALL).len();
    let others = allocate(&pool, &taker, 300, 4 * SMALL);
    let _giver = give(&pool, SMALL);
    for block in others {
        free(&pool, &taker, block, 4 * SMALL);
        held += allocate(&pool, &taker, 2, SMALL).len();
    }
    assert_eq!(pool.statistics().live_bytes, (held * SMALL) as u64);
}

#[test]
fn what_the_legacy_stream_frees_waits_for_an_event_wherever_it_came_from() {
    let _machine = machine().enter();
    let pool = pool(mib(4));
    let misses = stream();
    allocate(&pool, &misses, 12, SMALL);
    let _giver = give(&pool, SMALL);
    let mut freed = HashMap::new();
    for _ in 0..300 {
        let block = pool.allocate(StreamRef::legacy(), layout(SMALL)).expect("a block");
        let events = pool.statistics().events_recorded;
        if let Some(before) = freed.get(&block) {
            assert!(events > *before, "no event stands between two uses");
        }
        free(&pool, StreamRef::legacy(), block, SMALL);
        freed.insert(block, pool.statistics().events_recorded);
    }
    assert!(freed.len() < 250, "{} blocks were used", freed.len());
}

/// Each stream's cache may hold a part of the pool, but all of them together no more than a
/// quarter.
#[test]
fn caches_of_many_streams_leave_most_of_the_pool_alone() {
    const STREAMS: usize = 64;
    const BYTES: usize = 64 << 10;
    let _machine = machine().enter();
    let pool = pool(mib(128));
    let streams: Vec<CudaStream> = (0..STREAMS).map(|_| stream()).collect();
    for user in &streams {
        // More than the cache of one stream may hold, which is 4 MiB.
        let blocks = allocate(&pool, user, 80, BYTES);
        free_all(&pool, user, blocks, BYTES);
        let large = allocate(&pool, user, 2, LARGE);
        free_all(&pool, user, large, LARGE);
        let cached = pool.statistics().cached_bytes;
        assert!(cached <= mib(128) / 4, "{cached} bytes are cached");
    }
    assert!(pool.statistics().cached_bytes > mib(128) / 8);
}

/// A busy stream's cache holds the last block that another stream needs. That one waits for it on
/// the device, even if the busy stream was destroyed meanwhile.
#[test]
fn a_cached_block_of_a_busy_stream_is_waited_for() {
    const BYTES: usize = 64 << 10;
    for is_destroyed in [false, true] {
        // This driver records no event behind all work of a context, which would do as well.
        let builder = Machine::builder().memory(1 << 30).driver_version(12040);
        let machine = builder.schedule(Schedule::Lazy).enter();
        let pool = pool(mib(16));
        let (giver, taker) = (stream(), stream());
        let block = pool.allocate(&giver, layout(BYTES)).expect("a block");
        // More than is done while the pool asks.
        (0..100).for_each(|_| keep_busy(&machine, &giver));
        write(&machine, &giver, block, 1);
        free(&pool, &giver, block, BYTES);
        assert_eq!(pool.statistics().cached_bytes, BYTES as u64);
        let kept = (!is_destroyed).then_some(giver);
        pool.allocate(&taker, layout(16 * MIB - BYTES)).expect("the rest");
        assert_eq!(pool.allocate(&taker, layout(BYTES)).expect("a block"), block);
        write(&machine, &taker, block, 2);
        let statistics = pool.statistics();
        assert_eq!((statistics.stream_waits, statistics.host_waits), (1, 0), "{is_destroyed}");
        machine.assert_no_violations();
        drop(kept);
    }
}

/// Sizes below 1 MiB, half of them freed again, 64 live at most: a steady program. Returns the
/// part of the later requests that caches serve, in percent.
fn hits_of_a_steady_program(pool: &Pool) -> u64 {
    let user = stream();
    let mut random = 1_u64;
    let mut live: Vec<(DevicePtr, usize)> = Vec::new();
    let mut step = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let size =
            usize::try_from((random >> 33) % (1 << 20)).expect("it fits") / 4096 * 4096 + 256;
        if live.len() == 64 {
            let which = usize::try_from((random >> 20) % 64).expect("it fits");
            let (block, size) = live.swap_remove(which);
            free(pool, &user, block, size);
        }
        live.push((pool.allocate(&user, layout(size)).expect("a block"), size));
    };
    (0..20_000).for_each(|_| step());
    let before = pool.statistics();
    (0..10_000).for_each(|_| step());
    let after = pool.statistics();
    for (block, size) in live {
        free(pool, &user, block, size);
    }
    let hits = after.cached_allocations - before.cached_allocations;
    100 * hits / (after.allocations - before.allocations)
}

#[test]
fn a_steady_program_hits_over_virtual_memory_as_over_any() {
    let _machine = machine().enter();
    let builder = PoolMemoryResource::builder(VirtualMemoryResource::new().expect("pages"));
    let pages = builder.check_frees(false).initial_size(mib(512)).build().expect("a pool");
    let (fixed, by_demand) =
        (hits_of_a_steady_program(&pool(mib(512))), hits_of_a_steady_program(&pages));
    assert!(by_demand + 2 >= fixed && fixed >= 30, "{by_demand} % beside {fixed} %");
}

#[test]
fn small_blocks_stay_cached_when_large_ones_do_not() {
    let _machine = machine().enter();
    let pool = pool(mib(512));
    let (user, other) = (stream(), stream());
    let small = allocate(&pool, &other, 1, SMALL);
    free_all(&pool, &other, small.clone(), SMALL);
    // Each has another size than those that were freed before.
    for step in 0..1500 {
        let size = LARGE + step * 256;
        let block = pool.allocate(&user, layout(size)).expect("a block");
        free(&pool, &user, block, size);
    }
    assert_eq!(pool.statistics().cached_bytes, SMALL as u64, "large blocks are not cached now");
    let before = pool.statistics().cached_allocations;
    assert_eq!(allocate(&pool, &other, 1, SMALL), small);
    assert_eq!(pool.statistics().cached_allocations, before + 1);
    free_all(&pool, &other, small, SMALL);
}

#[test]
fn a_pool_grows_within_its_target_before_it_flushes_small_blocks() {
    let _machine = machine().enter();
    let builder = PoolMemoryResource::builder(VirtualMemoryResource::new().expect("pages"));
    let pool = builder.check_frees(false).build().expect("a pool");
    let (user, other) = (stream(), stream());
    let kept = pool.allocate(&user, layout(64 * MIB)).expect("a block");
    let small = allocate(&pool, &other, 4, SMALL);
    free_all(&pool, &other, small, SMALL);
    let cached = pool.statistics().cached_bytes;
    assert!(cached >= 4 * SMALL as u64, "{cached}");
    let reserved = pool.reserved_bytes();
    let more = pool.allocate(&user, layout(8 * MIB)).expect("a block");
    assert!(pool.reserved_bytes() > reserved, "it has grown");
    assert_eq!(pool.statistics().cached_bytes, cached);
    free(&pool, &user, more, 8 * MIB);
    free(&pool, &user, kept, 64 * MIB);
}

/// Bytes in caches after a program's use rose to 256 MiB and fell, in a pool that starts with so
/// many bytes.
fn cached_at_low_tide(initial: usize) -> u64 {
    let (machine, builder) = pages(4 << 30);
    let _entered = machine.enter();
    let pool = builder.initial_size(initial as u64).build().expect("a pool");
    let (user, other) = (stream(), stream());
    // Each operation on the heap: no cache has two blocks of a size.
    let operate = |count: usize| {
        for number in 0..count {
            let size = 2 * MIB + 256 * number;
            let block = pool.allocate(&user, layout(size)).expect("a block");
            free(&pool, &user, block, size);
        }
    };
    operate(2500);
    let kept = allocate(&pool, &user, 8, 32 * MIB);
    let small = allocate(&pool, &other, 64, SMALL);
    free_all(&pool, &other, small, SMALL);
    operate(2);
    let cached = pool.statistics().cached_bytes;
    assert!(cached >= 64 * SMALL as u64, "{cached}");
    free_all(&pool, &user, kept, 32 * MIB);
    // Some of these go into a cache anew.
    operate(8);
    let cached = pool.statistics().cached_bytes;
    let flushes = pool.statistics().flushes;
    assert_eq!(cached >= 64 * SMALL as u64, flushes == 0, "{cached} {flushes}");
    cached
}

#[test]
fn caches_return_their_blocks_when_a_program_uses_half_of_its_most() {
    assert!(cached_at_low_tide(0) < 64 * SMALL as u64);
    assert!(cached_at_low_tide(1 << 30) >= 64 * SMALL as u64, "memory is plentiful");
}

/// A pool over virtual memory, and its only device.
fn pages(bytes: usize) -> (Machine, PoolMemoryResourceBuilder) {
    let machine = Machine::builder().memory(bytes).schedule(Schedule::Eager).build();
    let entered = machine.enter();
    let pages = VirtualMemoryResource::new().expect("pages");
    drop(entered);
    (machine, PoolMemoryResource::builder(pages).check_frees(false))
}

/// Reserved bytes after every other block of a program was freed and a large one requested.
fn reserved_after_holes(refused: Option<usize>) -> u64 {
    let (machine, builder) = pages(4 << 30);
    let _entered = machine.enter();
    let pool = builder.maximum_size(1 << 30).build().expect("a pool");
    let user = stream();
    let blocks = allocate(&pool, &user, 32, 8 * MIB);
    if let Some(size) = refused {
        assert!(pool.allocate(&user, layout(size)).is_err());
    }
    let mut kept = Vec::new();
    for (index, block) in blocks.into_iter().enumerate() {
        if index % 2 == 0 {
            free(&pool, &user, block, 8 * MIB);
        } else {
            kept.push(block);
        }
    }
    let large = pool.allocate(&user, layout(120 * MIB)).expect("a block");
    let reserved = pool.reserved_bytes();
    free(&pool, &user, large, 120 * MIB);
    free_all(&pool, &user, kept, 8 * MIB);
    reserved
}

#[test]
fn a_refused_request_is_not_what_the_program_uses() {
    assert_eq!(reserved_after_holes(Some(1000 * MIB)), reserved_after_holes(None));
}

#[test]
fn a_policy_by_use_returns_what_only_caches_hold() {
    const SIZE: usize = 64 << 10;
    let (machine, builder) = pages(4 << 30);
    let _entered = machine.enter();
    let policy = ReleasePolicy::Unused { operations: 2000 };
    let pool = builder.release(policy).build().expect("a pool");
    let users: Vec<_> = (0..32).map(|_| stream()).collect();
    for _ in 0..200 {
        let all: Vec<_> = users.iter().map(|user| allocate(&pool, user, 64, SIZE)).collect();
        for (user, blocks) in users.iter().zip(all) {
            free_all(&pool, user, blocks, SIZE);
        }
    }
    for _ in 0..200 {
        for user in &users {
            let blocks = allocate(&pool, user, 64, SIZE);
            free_all(&pool, user, blocks, SIZE);
        }
    }
    pool.release_unused();
    assert!(pool.reserved_bytes() <= mib(16), "{} MiB", pool.reserved_bytes() >> 20);
}

#[test]
fn a_compact_pool_can_return_a_hole_in_what_it_loaded() {
    let (machine, builder) = pages(8 << 30);
    let _entered = machine.enter();
    let pool = builder.preset(PoolPreset::Compact).build().expect("a pool");
    let user = stream();
    let mut blocks = allocate(&pool, &user, 16, 64 * MIB);
    free(&pool, &user, blocks.remove(12), 64 * MIB);
    let small = pool.allocate(&user, layout(2 * MIB)).expect("a block");
    let large = pool.allocate(&user, layout(100 * MIB)).expect("a block");
    assert!(pool.reserved_bytes() <= mib(1024 + 64), "{} MiB", pool.reserved_bytes() >> 20);
    free(&pool, &user, small, 2 * MIB);
    free(&pool, &user, large, 100 * MIB);
    free_all(&pool, &user, blocks, 64 * MIB);
}

#[test]
fn growth_after_a_trim_takes_no_more_calls_than_before_loading() {
    let (machine, builder) = pages(8 << 30);
    let _entered = machine.enter();
    let pool = builder.build().expect("a pool");
    let user = stream();
    let calls = [(); 3].map(|()| {
        let before = pool.statistics().upstream_allocations;
        let blocks = allocate(&pool, &user, 512, 4 * MIB);
        let calls = pool.statistics().upstream_allocations - before;
        free_all(&pool, &user, blocks, 4 * MIB);
        pool.trim(0);
        calls
    });
    assert!(calls[0] <= 120 && calls[1] <= 340 && calls[2] <= 340, "{calls:?}");
}
