//! The counters of thread caches: each moves when it should, and no other.

use rmm_adaptors::SpanPolicy;
use rmm_core::{CudaStream, DevicePtr, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

use crate::support::{MIB, Pool, free, layout, mib, stream};

const RESERVED: u64 = mib(256);
const SMALL: usize = 1000;

/// How many misses, lock waits, flushes, flushed blocks and spans a pool has more once work is
/// done.
fn more(pool: &Pool, work: impl FnOnce()) -> [i64; 5] {
    let counts = || {
        let its = pool.statistics();
        let misses = its.allocations - its.cached_allocations;
        [misses, its.lock_waits, its.flushes, its.flushed_blocks, its.spans]
    };
    let before = counts();
    work();
    let after = counts();
    std::array::from_fn(|which| after[which].wrapping_sub(before[which]).cast_signed())
}

fn allocate(pool: &Pool, stream: &CudaStream, bytes: usize) -> DevicePtr {
    pool.allocate(stream, layout(bytes)).expect("memory")
}

fn trim(pool: &Pool) {
    assert_eq!(pool.trim(RESERVED), 0, "no more than that is reserved");
}

#[test]
fn hits_move_no_counter_and_flushes_count_once() {
    let _machine = Machine::builder().memory(1 << 30).enter();
    let builder = Pool::builder(CudaMemoryResource::new()).check_frees(false);
    let (pool, stream) = (builder.initial_size(RESERVED).build().expect("a pool"), stream());
    let pair = || free(&pool, &stream, allocate(&pool, &stream, SMALL), SMALL);

    assert_eq!(more(&pool, pair), [1, 0, 0, 0, 0], "a miss");
    let hits = || (0..100).for_each(|_| pair());
    assert_eq!(more(&pool, hits), [0; 5]);
    assert_eq!(pool.statistics().cached_allocations, 100);
    assert_eq!(more(&pool, || trim(&pool)), [0, 0, 1, 1, 0], "a cache with one block");
    assert_eq!(more(&pool, || trim(&pool)), [0; 5], "there is none");

    let blocks: Vec<DevicePtr> = (0..5000).map(|_| allocate(&pool, &stream, SMALL)).collect();
    // The thread was given more than it took, in advance.
    let all = 5000 + pool.statistics().cached_bytes.cast_signed() / 1024;
    let free_all = || blocks.iter().for_each(|&block| free(&pool, &stream, block, SMALL));
    let [misses, waits, emptied, flushed, spans] = more(&pool, free_all);
    assert_eq!([misses, waits, emptied, spans], [0; 4], "it was full, and not emptied");
    assert!((1..5000).contains(&flushed), "{flushed} blocks have left");
    assert_eq!(more(&pool, || trim(&pool)), [0, 0, 1, all - flushed, 0], "each leaves once");
}

#[test]
fn spans_count_while_a_cache_has_them() {
    let _machine = Machine::builder().memory(1 << 30).enter();
    let builder = Pool::builder(CudaMemoryResource::new()).spans(SpanPolicy::Always);
    let builder = builder.check_frees(false).initial_size(RESERVED);
    let (pool, stream) = (builder.build().expect("a pool"), stream());
    let mut block = DevicePtr(0);
    let take = |block: &mut DevicePtr| *block = allocate(&pool, &stream, 2 * MIB);
    assert_eq!(more(&pool, || take(&mut block)), [1, 0, 0, 0, 0], "a cache comes first");
    assert_eq!(more(&pool, || take(&mut block)), [0, 0, 0, 0, 1]);
    let put = || free(&pool, &stream, block, 2 * MIB);
    assert_eq!(more(&pool, put), [0; 5], "it is in the span");
    assert_eq!(more(&pool, || take(&mut block)), [0; 5], "a hit");
    assert_eq!(more(&pool, || free(&pool, &stream, block, 2 * MIB)), [0; 5]);
    assert_eq!(more(&pool, || trim(&pool)), [0, 0, 1, 1, -1], "the rest was never a block");
    assert_eq!(more(&pool, || trim(&pool)), [0; 5], "there is none");
}

#[test]
fn a_block_that_a_full_cache_refuses_was_not_flushed() {
    let _machine = Machine::builder().memory(1 << 30).enter();
    let builder = Pool::builder(CudaMemoryResource::new()).check_frees(false);
    let (pool, stream) = (builder.initial_size(mib(4)).build().expect("a pool"), stream());
    let blocks: Vec<DevicePtr> = (0..2000).map(|_| allocate(&pool, &stream, 256)).collect();
    for block in blocks {
        free(&pool, &stream, block, 256);
    }
    // The thread is given some of these in advance, until there is no room.
    let take = || assert!((0..9).all(|_| allocate(&pool, &stream, SMALL).0 > 0));
    let [misses, counted @ ..] = more(&pool, take);
    assert!(misses > 0);
    assert_eq!(counted, [0; 4]);
}
