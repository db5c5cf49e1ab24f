//! Tests of what becomes idle while requests find memory: what other streams are done with.

use rmm_adaptors::{PoolMemoryResource, PoolPreset};
use rmm_core::{CudaStream, DevicePtr, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

use crate::support::{MIB, Pool, free, layout, stream};

const BLOCK: usize = 8 * MIB;

fn machine() -> Machine {
    Machine::builder().memory(1 << 30).schedule(Schedule::Eager).checks(false).build()
}

/// A pool in which `own` has just been short of memory that `other` had freed; then that freed 16
/// blocks more, each beside one that is live.
fn pool_that_was_short(preset: PoolPreset, own: &CudaStream, other: &CudaStream) -> Pool {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).preset(preset);
    let pool = builder.build().expect("a pool");
    let blocks = [(); 64].map(|()| pool.allocate(other, layout(BLOCK)).expect("memory"));
    let free_half = |blocks: &[DevicePtr]| {
        blocks.iter().step_by(2).for_each(|&block| free(&pool, other, block, BLOCK));
    };
    free_half(&blocks[..32]);
    let _live = pool.allocate(own, layout(4 * BLOCK)).expect("memory");
    free_half(&blocks[32..]);
    pool
}

/// Bytes that are free on the stream alone.
fn free_bytes(pool: &Pool, stream: &CudaStream) -> u64 {
    let blocks = pool.blocks();
    let owned = blocks.iter().filter(|block| !block.is_live && block.owner == Some(stream.id()));
    owned.map(|block| block.size).sum()
}

/// Requests that no cache serves.
fn requests(pool: &Pool, stream: &CudaStream, count: usize) {
    for number in 1..=count {
        let bytes = BLOCK / 2 - number % 64 * 4096;
        let block = pool.allocate(stream, layout(bytes)).expect("memory");
        free(pool, stream, block, bytes);
    }
}

#[test]
fn what_another_stream_is_done_with_becomes_idle_after_a_shortage() {
    let _machine = machine().enter();
    let (own, other) = (stream(), stream());
    let pool = pool_that_was_short(PoolPreset::Throughput, &own, &other);
    assert!(free_bytes(&pool, &other) >= 16 * BLOCK as u64);
    requests(&pool, &own, 16);
    assert_eq!(free_bytes(&pool, &other), 0, "it waits for a request in need");
}

#[test]
fn a_deterministic_pool_leaves_it_where_it_is() {
    let _machine = machine().enter();
    let (own, other) = (stream(), stream());
    let pool = pool_that_was_short(PoolPreset::Deterministic, &own, &other);
    let freed = free_bytes(&pool, &other);
    requests(&pool, &own, 16);
    assert_eq!(free_bytes(&pool, &other), freed);
}

/// Driver calls of requests on both streams, after many others: of events that frees are due.
fn calls(machine: &Machine, pool: &Pool, streams: &[CudaStream; 2]) -> u64 {
    let round = |count| streams.iter().for_each(|stream| requests(pool, stream, count));
    round(1200);
    let before = machine.calls();
    round(200);
    machine.calls() - before
}

#[test]
fn a_pool_that_has_long_found_memory_asks_no_more_than_one_that_always_has() {
    let machine = machine().enter();
    let streams = [stream(), stream()];
    let was_short = pool_that_was_short(PoolPreset::Throughput, &streams[0], &streams[1]);
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let never_short = builder.initial_size(256 << 20).build().expect("a pool");
    let due = calls(&machine, &never_short, &streams);
    let made = calls(&machine, &was_short, &streams);
    assert!(made <= due + due / 4, "{made} calls instead of {due}");
}
