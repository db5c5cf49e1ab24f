//! Spans: large blocks that a thread allocates and frees without the pool's lock, in any program
//! and in stream order.

use std::thread;

use crate::harness::{Fixture, Runner};
use crate::programs::{Op, ops};
use crate::support::{MIB, Pool, base_seed, free, layout, mib, stream, write};
use proptest::prelude::*;
use rmm_adaptors::{PoolPreset, PoolStatistics, ReleasePolicy, SpanPolicy};
use rmm_core::{CudaStream, DevicePtr, Resource, SynchronousResource as _};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, MachineGuard, Schedule};

/// The unit of the sizes: large blocks.
const GRANULE: usize = 8 << 10;

fn machine() -> MachineGuard {
    Machine::builder().memory(8 << 30).schedule(Schedule::Lazy).enter()
}

fn pool(bytes: u64, spans: SpanPolicy) -> Pool {
    let builder = Pool::builder(CudaMemoryResource::new()).spans(spans).check_frees(false);
    builder.initial_size(bytes).maximum_size(bytes).build().expect("a pool")
}

fn allocate(pool: &Pool, stream: &CudaStream, bytes: usize) -> DevicePtr {
    pool.allocate(stream, layout(bytes)).expect("memory")
}

/// Makes the cache of this thread for the stream, without which it gets no span.
fn make_cache(pool: &Pool, stream: &CudaStream) {
    for _ in 0..20 {
        let pointer = allocate(pool, stream, 4096);
        free(pool, stream, pointer, 4096);
    }
}

/// What the caches served since.
fn hits_since(pool: &Pool, before: PoolStatistics) -> u64 {
    pool.statistics().cached_allocations - before.cached_allocations
}

fn run(ops: &[Op], schedule: Schedule, limit: u64) {
    let machine = Machine::builder().memory(4 << 30).schedule(schedule).build();
    let entered = machine.enter();
    let fixture = Fixture::in_granules(&machine, pool(limit, SpanPolicy::Always), GRANULE);
    let mut first = Runner::sharing(fixture.clone(), 0);
    let (here, there) = ops.split_at(ops.len() / 2);
    for op in here {
        first.step(op);
    }
    // Another thread frees what this one has handed over, and the other way round.
    thread::scope(|scope| {
        let other = || {
            let _entered = machine.enter();
            let mut second = Runner::sharing(fixture.clone(), 1);
            for op in there {
                second.step(op);
            }
            second.free_all();
        };
        scope.spawn(other).join().expect("it does not panic");
    });
    for op in here {
        first.step(op);
    }
    first.finish();
    assert_eq!(first.failed_calls, 0, "no driver call fails here");
    drop(first);
    fixture.finish();
    drop(fixture);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_never_shared(ops in ops(150), seed in any::<u64>(), pool in 20_u64..500) {
        run(&ops, Schedule::Seeded(seed ^ base_seed()), pool << 20);
    }

    #[test]
    fn blocks_are_never_shared_under_the_lazy_schedule(ops in ops(150), pool in 20_u64..500) {
        run(&ops, Schedule::Lazy, pool << 20);
    }
}

#[test]
fn sizes_that_never_come_again_are_served_without_the_lock() {
    let _machine = machine();
    let (pool, stream) = (pool(mib(1024), SpanPolicy::Always), stream());
    let mut live = Vec::new();
    let mut before = None;
    for call in 0..2000 {
        let bytes = 2 * MIB + call * 256;
        live.push((allocate(&pool, &stream, bytes), bytes));
        if live.len() > 3 {
            let (pointer, bytes) = live.remove(call % 3);
            free(&pool, &stream, pointer, bytes);
        }
        before = before.or_else(|| (call == 1000).then(|| pool.statistics()));
    }
    assert_eq!(hits_since(&pool, before.expect("call 1000 was made")), 999);
    for (pointer, bytes) in live {
        free(&pool, &stream, pointer, bytes);
    }
    let after = pool.statistics();
    assert_eq!((after.live_bytes, after.unknown_frees, after.frees), (0, 0, 2000));
    assert!(after.cached_bytes >= mib(8), "a span is free memory of a cache");
    assert_eq!(pool.trim(0), mib(1024), "trim takes it back");
}

#[test]
fn a_span_holds_back_nothing_that_a_request_needs() {
    let machine = machine();
    let (pool, [first, second]) = (pool(mib(256), SpanPolicy::Always), [stream(), stream()]);
    make_cache(&pool, &first);
    let [kept, used] = [(); 2].map(|()| allocate(&pool, &first, 2 * MIB));
    write(&machine, &first, used, 1);
    free(&pool, &first, used, 2 * MIB);
    // All that the first stream has never used, which waits for nothing.
    let large = allocate(&pool, &second, 248 * MIB);
    let waits = |pool: &Pool| pool.statistics().stream_waits + pool.statistics().host_waits;
    assert_eq!(waits(&pool), 0);
    free(&pool, &second, large, 248 * MIB);
    free(&pool, &first, kept, 2 * MIB);
    assert_eq!((pool.statistics().live_bytes, pool.statistics().unknown_frees), (0, 0));
}

#[test]
fn a_request_for_more_than_there_can_be_is_refused() {
    let _machine = machine();
    let (pool, stream) = (pool(mib(1024), SpanPolicy::Always), stream());
    make_cache(&pool, &stream);
    let block = allocate(&pool, &stream, 2 * MIB);
    for bytes in [1 << 40, 1 << 62, (1 << 62) + 2 * MIB] {
        let error = pool.allocate(&stream, layout(bytes)).expect_err("there is no such device");
        assert!(error.is_out_of_memory(), "{error}");
    }
    free(&pool, &stream, block, 2 * MIB);
    assert_eq!(pool.trim(0), mib(1024));
}

#[test]
fn what_spans_hold_goes_back_as_the_release_policy_says() {
    let _machine = machine();
    let upstream = VirtualMemoryResource::new().expect("the device has virtual memory");
    let policy = ReleasePolicy::Above { bytes: mib(16) };
    let builder = Pool::builder(upstream).spans(SpanPolicy::Always).release(policy);
    let pool = builder.check_frees(false).initial_size(mib(512)).build().expect("a pool");
    let large = pool.allocate_sync(layout(100 * MIB)).expect("memory");
    let streams = [stream(), stream()];
    for stream in &streams {
        for bytes in (2 * MIB..16 * MIB).step_by(MIB) {
            let pointer = allocate(&pool, stream, bytes);
            free(&pool, stream, pointer, bytes);
        }
        stream.synchronize().expect("it ends");
    }
    assert!(pool.statistics().cached_bytes > mib(48), "{:?}", pool.statistics());
    // SAFETY: allocated above with this layout, and used by nothing.
    unsafe { pool.deallocate_sync(large, layout(100 * MIB)) };
    assert!(pool.reserved_bytes() <= mib(40), "{} MiB", pool.reserved_bytes() >> 20);
}

#[test]
fn a_block_that_another_stream_frees_is_that_stream_s() {
    let machine = machine();
    let (pool, [first, second]) = (pool(mib(256), SpanPolicy::Always), [stream(), stream()]);
    make_cache(&pool, &first);
    let [kept, block] = [(); 2].map(|()| allocate(&pool, &first, 2 * MIB));
    write(&machine, &first, block, 1);
    first.synchronize().expect("it ends");
    // The last use is on the second stream, which does not end.
    write(&machine, &second, block, 2);
    free(&pool, &second, block, 2 * MIB);
    let next: Vec<DevicePtr> = (0..8).map(|_| allocate(&pool, &first, 2 * MIB)).collect();
    assert!(!next.contains(&block), "the second stream still uses it");
    for pointer in next {
        write(&machine, &first, pointer, 3);
        free(&pool, &first, pointer, 2 * MIB);
    }
    free(&pool, &first, kept, 2 * MIB);
    assert_eq!((pool.statistics().live_bytes, pool.statistics().unknown_frees), (0, 0));
    machine.run_all();
    machine.assert_no_violations();
}

#[test]
fn the_legacy_default_stream_has_no_span() {
    let machine = machine();
    let (pool, legacy) = (pool(mib(256), SpanPolicy::Always), CudaStream::legacy());
    make_cache(&pool, &legacy);
    let [first, second] = [(); 2].map(|()| CudaStream::new().expect("a blocking stream"));
    let kept = allocate(&pool, &legacy, 2 * MIB);
    // What blocking streams do is before and after the work of the legacy stream, of which there is
    // none: only an event of the pool's can order the two.
    for user in [&first, &second] {
        let block = allocate(&pool, &legacy, 2 * MIB);
        write(&machine, user, block, 1);
        free(&pool, &legacy, block, 2 * MIB);
    }
    free(&pool, &legacy, kept, 2 * MIB);
    machine.run_all();
    machine.assert_no_violations();
    assert_eq!(pool.statistics().spans, 0);
}

#[test]
fn a_thread_that_waits_for_nobody_gets_no_span() {
    let _machine = machine();
    let stream = stream();
    for (policy, has_hits) in
        [(SpanPolicy::Contended, false), (SpanPolicy::Off, false), (SpanPolicy::Always, true)]
    {
        let pool = pool(mib(1024), policy);
        for call in 0..1000 {
            let bytes = 2 * MIB + call * 256;
            let pointer = allocate(&pool, &stream, bytes);
            free(&pool, &stream, pointer, bytes);
        }
        assert_eq!(pool.statistics().cached_allocations > 0, has_hits, "{policy:?}");
    }
}

#[test]
fn no_preset_without_caches_has_spans() {
    let _machine = machine();
    for preset in [PoolPreset::Deterministic, PoolPreset::Compact] {
        let builder = Pool::builder(CudaMemoryResource::new()).preset(preset);
        let pool =
            builder.spans(SpanPolicy::Always).initial_size(mib(256)).build().expect("a pool");
        let stream = stream();
        for bytes in [2 * MIB, 3 * MIB, 4 * MIB] {
            let pointer = allocate(&pool, &stream, bytes);
            free(&pool, &stream, pointer, bytes);
        }
        assert_eq!(pool.statistics().cached_allocations, 0, "{preset:?}");
    }
}

#[test]
fn a_part_goes_into_no_other_cache() {
    let machine = machine();
    let (pool, stream) = (pool(mib(1024), SpanPolicy::Always), stream());
    let of_another_thread = |work: &(dyn Fn() -> DevicePtr + Sync)| {
        let run = || {
            let _entered = machine.enter();
            work()
        };
        thread::scope(|scope| scope.spawn(run).join().expect("it does not panic"))
    };
    // The first thread has the cache with the span, and a second one gets a cache of its own.
    make_cache(&pool, &stream);
    let [kept, block] = [(); 2].map(|()| allocate(&pool, &stream, 2 * MIB));
    let theirs = of_another_thread(&|| {
        make_cache(&pool, &stream);
        free(&pool, &stream, block, 2 * MIB);
        allocate(&pool, &stream, 2 * MIB)
    });
    let next: Vec<DevicePtr> = (0..64).map(|_| allocate(&pool, &stream, 2 * MIB)).collect();
    assert!(!next.contains(&theirs), "two threads got one block");
    for pointer in next.into_iter().chain([theirs, kept]) {
        free(&pool, &stream, pointer, 2 * MIB);
    }
    assert_eq!(pool.trim(0), mib(1024));
    assert_eq!((pool.statistics().live_bytes, pool.statistics().unknown_frees), (0, 0));
}
