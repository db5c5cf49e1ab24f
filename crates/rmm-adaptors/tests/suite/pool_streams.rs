//! Tests of many streams, and of streams that are created and destroyed: their cost for other
//! streams, and what they leave behind.

use std::time::Duration;

use rmm_adaptors::{PoolMemoryResource, PoolPreset};
use rmm_core::{CudaStream, DevicePtr, Resource, StreamLifetime, SynchronousResource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Kernel, Machine, Schedule};

use crate::fixtures::pool_on;
use crate::support::{MIB, Pool, free, layout, mib, stream, write};

const BYTES: usize = 4096;

/// A machine without race detection, so that a thousand streams are fast.
fn machine(schedule: Schedule) -> Machine {
    Machine::builder().memory(1 << 30).schedule(schedule).checks(false).build()
}

fn pool(preset: PoolPreset) -> Pool {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).preset(preset);
    // As in a release build: otherwise each free searches all caches.
    builder.initial_size(mib(256)).check_frees(false).build().expect("a pool")
}

/// Allocates a block and frees it.
fn pair(pool: &Pool, stream: &CudaStream) {
    let block = pool.allocate(stream, layout(BYTES)).expect("a block");
    free(pool, stream, block, BYTES);
}

/// One allocation and free on each stream.
fn pairs(pool: &Pool, streams: &[CudaStream]) {
    for stream in streams {
        pair(pool, stream);
    }
}

/// Enqueues work that does not complete during the test.
fn keep_busy_for_long(machine: &Machine, stream: &CudaStream) {
    let work = Kernel::new("long", |_| {}).lasts(Duration::from_secs(1000));
    machine.launch(stream.as_raw(), work).expect("a launch");
}

/// Enqueues a write to the block that does not complete during the test.
fn write_for_long(machine: &Machine, stream: &CudaStream, block: DevicePtr) {
    let work = Kernel::new("write", |_| {}).writes(block, 8).lasts(Duration::from_secs(1000));
    machine.launch(stream.as_raw(), work).expect("a launch");
}

#[test]
fn workers_keep_their_caches_while_streams_change() {
    for workers in [28, 34, 96] {
        let machine = machine(Schedule::Eager).enter();
        let pool = pool(PoolPreset::Throughput);
        let workers: Vec<_> = (0..workers).map(|_| stream()).collect();
        pairs(&pool, &workers);
        let (before, calls) = (pool.statistics(), machine.calls());
        let rounds = 100;
        for _ in 0..rounds {
            pair(&pool, &stream());
            pairs(&pool, &workers);
        }
        let (after, calls) = (pool.statistics(), machine.calls() - calls);
        let cached = after.cached_allocations - before.cached_allocations;
        let all = after.allocations - before.allocations;
        let count = workers.len();
        assert!(cached * 100 >= all * 95, "{count} workers: {cached} of {all} from caches");
        assert!(calls <= rounds * 20, "{count} workers: {calls} calls to the driver");
    }
}

#[test]
fn the_cost_of_a_new_stream_ignores_busy_streams() {
    let machine = machine(Schedule::Timed).enter();
    let pool = pool(PoolPreset::Throughput);
    let mut streams = Vec::new();
    for _ in 0..256 {
        let stream = stream();
        keep_busy_for_long(&machine, &stream);
        let calls = machine.calls();
        pair(&pool, &stream);
        let calls = machine.calls() - calls;
        assert!(calls <= 16, "{calls} calls beside {} streams", streams.len());
        streams.push(stream);
    }
}

#[test]
fn a_request_asks_about_a_few_streams_until_it_has_memory() {
    const SIZE: usize = MIB / 4;
    let (_machine, _entered, pool, [heir]) = pool_on(machine(Schedule::Eager), |builder| {
        builder.initial_size(mib(25)).maximum_size(mib(25)).check_frees(false)
    });
    let streams: Vec<_> = (0..100).map(|_| stream()).collect();
    let allocate = |stream: &CudaStream| pool.allocate(stream, layout(SIZE)).expect("a block");
    let blocks: Vec<_> = streams.iter().map(allocate).collect();
    for (stream, block) in streams.iter().zip(blocks) {
        free(&pool, stream, block, SIZE);
    }
    let before = pool.statistics().event_queries;
    allocate(&heir);
    let asked = pool.statistics().event_queries - before;
    assert!((1..=16).contains(&asked), "{asked} of {} streams", streams.len());
    // What the other streams freed is in reach of the next requests.
    for _ in 1..100 {
        allocate(&heir);
    }
    let statistics = pool.statistics();
    assert_eq!((statistics.stream_waits, statistics.host_waits), (0, 0));
}

#[test]
fn short_lived_streams_share_a_few_slots() {
    for lifetime in [StreamLifetime::UntilDropped, StreamLifetime::Unknown] {
        let _machine = machine(Schedule::Eager).enter();
        let pool = pool(PoolPreset::Throughput);
        let metadata = |streams: usize| {
            for _ in 0..streams {
                let stream = stream();
                // SAFETY: `stream` outlives it.
                let adopted = unsafe { CudaStream::adopt(stream.as_raw(), lifetime) };
                pair(&pool, &adopted.expect("it exists"));
            }
            pool.statistics().bookkeeping_bytes
        };
        let (few, many) = (metadata(200), metadata(800));
        assert!(many <= few, "{few} bytes after 200 streams, and {many} after 1,000");
    }
}

#[test]
fn an_unused_pool_takes_little_host_memory() {
    let (_machine, _entered, pool, []) = pool_on(machine(Schedule::Eager), |builder| builder);
    let unused = pool.statistics().bookkeeping_bytes;
    assert!(unused < 1024, "{unused}");
}

#[test]
fn trim_frees_the_metadata_of_streams() {
    for preset in [PoolPreset::Throughput, PoolPreset::Deterministic] {
        let _machine = machine(Schedule::Timed).enter();
        let pool = pool(preset);
        pair(&pool, &stream());
        pool.trim(u64::MAX);
        let before = pool.statistics().bookkeeping_bytes;
        let mut streams: Vec<_> = (0..1000).map(|_| stream()).collect();
        // Enough free blocks, apart from each other, for each list to need bins.
        for stream in &streams {
            let block = |_| pool.allocate(stream, layout(256)).expect("a block");
            let blocks: Vec<_> = (0..40).map(block).collect();
            let (even, odd): (Vec<_>, Vec<_>) =
                blocks.chunks(2).map(|two| (two[0], two[1])).unzip();
            odd.into_iter().chain(even).for_each(|block| free(&pool, stream, block, 256));
        }
        let most = pool.statistics().bookkeeping_bytes;
        assert!(most > before + (1 << 20), "{most} with {preset:?}");
        pool.trim(u64::MAX);
        let idle = pool.statistics().bookkeeping_bytes;
        assert!(idle <= before + 1000 * 512, "{before} before, {idle} when they are idle");
        pairs(&pool, &streams);
        streams.clear();
        pool.trim(u64::MAX);
        let gone = pool.statistics().bookkeeping_bytes;
        assert!(gone <= before + 512, "{before} before, {gone} when they are gone");
        pair(&pool, &stream());
    }
}

/// The pool has recorded that a stream is ordered after another one, which is then destroyed. A new
/// stream with the same slot must not count as the destroyed one.
#[test]
fn a_wait_for_a_destroyed_stream_ignores_its_successor() {
    const SIZE: usize = 2 * MIB;
    let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Timed).enter();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let pool = builder
        .maximum_size((3 * SIZE) as u64)
        .initial_size((3 * SIZE) as u64)
        .build()
        .expect("a pool");
    let allocate = |stream: &CudaStream| pool.allocate(stream, layout(SIZE)).unwrap();
    let spare = pool.allocate_sync(layout(SIZE)).expect("a block");
    let (waiting, gone) = (stream(), stream());
    let (own, passed) = (allocate(&waiting), allocate(&gone));
    write_for_long(&machine, &gone, passed);
    free(&pool, &gone, passed, SIZE);
    assert_eq!(allocate(&waiting), passed, "all else is taken");
    assert_eq!(pool.statistics().stream_waits, 1);
    drop(gone);
    // Its pending frees keep the waiting stream in the pool's table.
    write_for_long(&machine, &waiting, own);
    free(&pool, &waiting, own, SIZE);
    pool.trim(u64::MAX);
    // SAFETY: allocated with this layout, and not used.
    unsafe { pool.deallocate_sync(spare, layout(SIZE)) };
    let next = stream();
    let theirs = allocate(&next);
    assert_eq!(theirs, spare);
    write_for_long(&machine, &next, theirs);
    free(&pool, &next, theirs, SIZE);
    assert_eq!(allocate(&waiting), own);
    let block = allocate(&waiting);
    write_for_long(&machine, &waiting, block);
    assert_eq!((block, pool.statistics().stream_waits), (theirs, 2));
    machine.assert_no_violations();
}

/// Driver calls for each allocation and free, once `count` streams have each used the pool, which
/// has room for few blocks: each stream gets memory that others have freed.
fn driver_calls_with(count: u64) -> u64 {
    const SIZE: usize = 64 << 10;
    let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Eager).enter();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let builder = builder.preset(PoolPreset::Compact).initial_size(2 << 20).maximum_size(2 << 20);
    let pool = builder.build().expect("a pool");
    let streams: Vec<CudaStream> = (0..count).map(|_| stream()).collect();
    let round = || {
        for stream in &streams {
            let block = pool.allocate(stream, layout(SIZE)).expect("a block");
            write(&machine, stream, block, 1);
            free(&pool, stream, block, SIZE);
        }
    };
    round();
    let before = machine.calls();
    round();
    machine.assert_no_violations();
    (machine.calls() - before) / count
}

#[test]
fn many_streams_need_no_more_driver_calls_than_few() {
    let [few, many] = [64, 1024].map(driver_calls_with);
    assert!(many <= few, "{few} for each call with 64 streams, {many} with 1,024");
}
