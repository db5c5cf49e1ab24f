//! Tests of pools with a release policy.

use std::time::Duration;

use rmm_adaptors::{ManualClock, PoolMemoryResource, PoolPreset, ReleasePolicy};
use rmm_core::{CaptureScope, CudaStream, DevicePtr, Resource};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::own_process;
use crate::support::{MIB, Pool, free, keep_busy, layout, stream, write};

fn pool(policy: ReleasePolicy) -> Pool {
    Pool::builder(CudaMemoryResource::new()).release(policy).build().expect("a pool")
}

fn allocate(pool: &Pool, on: &CudaStream, mib: usize) -> DevicePtr {
    pool.allocate(on, layout(mib * MIB)).expect("there is memory")
}

/// Allocates and frees the same blocks several times.
fn churn(pool: &Pool, on: &CudaStream, times: usize) {
    for _ in 0..times {
        let block = allocate(pool, on, 2);
        free(pool, on, block, 2 * MIB);
    }
}

#[test]
fn memory_is_kept_by_default() {
    let _machine = rmm_sim::enter();
    let (pool, on) = (pool(ReleasePolicy::default()), stream());
    let large = allocate(&pool, &on, 64);
    free(&pool, &on, large, 64 * MIB);
    on.synchronize().unwrap();
    churn(&pool, &on, 100);
    assert_eq!((pool.release_unused(), pool.reserved_bytes()), (0, 64 << 20));
}

#[test]
fn memory_above_the_threshold_returns_once_idle() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let (pool, on) = (pool(ReleasePolicy::Above { bytes: 8 << 20 }), stream());
    let (kept, large) = (allocate(&pool, &on, 8), allocate(&pool, &on, 48));
    write(&machine, &on, large, 1);
    free(&pool, &on, large, 48 * MIB);
    assert_eq!(pool.reserved_bytes(), 56 << 20, "the device may still use it");
    on.synchronize().unwrap();
    free(&pool, &on, kept, 8 * MIB);
    assert_eq!(pool.reserved_bytes(), 8 << 20, "a free has found it done");
    let statistics = pool.statistics();
    assert_eq!((statistics.host_waits, statistics.stream_waits), (0, 0));
    machine.assert_no_violations();
}

#[test]
fn frees_below_the_threshold_make_no_driver_call() {
    let machine = rmm_sim::enter();
    let (pool, on) = (pool(ReleasePolicy::Above { bytes: 8 << 20 }), stream());
    churn(&pool, &on, 1);
    let calls = machine.calls();
    churn(&pool, &on, 100);
    assert_eq!(machine.calls(), calls);
}

#[test]
fn pages_in_the_middle_are_returned() {
    let _machine = rmm_sim::enter();
    let upstream = VirtualMemoryResource::new().unwrap();
    let pages = upstream.clone();
    let builder = PoolMemoryResource::builder(upstream).preset(PoolPreset::Compact);
    let pool = builder.release(ReleasePolicy::Above { bytes: 0 }).build().unwrap();
    let on = stream();
    let blocks = [0; 3].map(|_| pool.allocate(&on, layout(4 * MIB)).unwrap());
    free(&pool, &on, blocks[1], 4 * MIB);
    assert_eq!(pages.statistics().mapped_bytes, 8 << 20);
    for block in [blocks[0], blocks[2]] {
        free(&pool, &on, block, 4 * MIB);
    }
}

#[test]
fn memory_that_was_not_needed_recently_is_returned() {
    let _machine = rmm_sim::enter();
    let (pool, on) = (pool(ReleasePolicy::Unused { operations: 100 }), stream());
    let blocks = [allocate(&pool, &on, 2), allocate(&pool, &on, 64)];
    free(&pool, &on, blocks[0], 2 * MIB);
    free(&pool, &on, blocks[1], 64 * MIB);
    on.synchronize().unwrap();
    churn(&pool, &on, 70);
    assert_eq!(pool.reserved_bytes(), 66 << 20, "it was needed among the last hundred");
    churn(&pool, &on, 30);
    assert_eq!(pool.reserved_bytes(), 2 << 20, "it was not");
    let calls = pool.statistics().upstream_frees;
    churn(&pool, &on, 200);
    assert_eq!(pool.statistics().upstream_frees, calls, "what is needed stays");
}

#[test]
fn an_idle_program_returns_memory_by_a_call() {
    let _machine = rmm_sim::enter();
    let (pool, on) = (pool(ReleasePolicy::Unused { operations: 1 << 20 }), stream());
    let blocks = [allocate(&pool, &on, 16), pool.allocate(&on, layout(1000)).unwrap()];
    free(&pool, &on, blocks[0], 16 * MIB);
    free(&pool, &on, blocks[1], 1000);
    on.synchronize().unwrap();
    assert_eq!(pool.release_unused(), 0, "all was in use since the last call");
    assert!(pool.release_unused() >= 16 << 20);
    assert_eq!(pool.reserved_bytes(), 0, "cached blocks, too");
}

#[test]
fn captures_are_not_affected() {
    if own_process::has_run() {
        return;
    }
    let _machine = rmm_sim::enter();
    let (pool, on) = (pool(ReleasePolicy::Above { bytes: 0 }), stream());
    let block = allocate(&pool, &on, 16);
    let announced = CaptureScope::announce();
    free(&pool, &on, block, 16 * MIB);
    on.synchronize().unwrap();
    assert_eq!((pool.release_unused(), pool.reserved_bytes()), (0, 16 << 20));
    drop(announced);
    assert_eq!((pool.release_unused(), pool.reserved_bytes()), (16 << 20, 0));
}

#[test]
fn deterministic_release_ignores_the_device_s_progress() {
    let run = |schedule| {
        let machine = Machine::builder().schedule(schedule).enter();
        let builder = Pool::builder(CudaMemoryResource::new()).preset(PoolPreset::Deterministic);
        let pool = builder.release(ReleasePolicy::Unused { operations: 20 }).build().unwrap();
        let streams = [stream(), stream()];
        let mut reserved = Vec::new();
        for step in 0..200 {
            let on = &streams[step % 2];
            keep_busy(&machine, on);
            let mib = 1 + step * 7 % 13;
            let block = allocate(&pool, on, mib);
            free(&pool, on, block, mib * MIB);
            if step % 30 == 29 {
                pool.trim(24 << 20);
            }
            reserved.push(pool.reserved_bytes());
        }
        reserved
    };
    let lazy = run(Schedule::Lazy);
    assert_eq!(lazy, run(Schedule::Eager));
    assert!(lazy.windows(2).any(|pair| pair[1] < pair[0]));
}

#[test]
fn memory_unused_for_a_span_of_time_returns() {
    let _machine = rmm_sim::enter();
    let clock = ManualClock::new();
    let builder = Pool::builder(CudaMemoryResource::new());
    let pool = builder.release_after(Duration::from_secs(10)).clock(clock.clone()).build().unwrap();
    let on = stream();
    let large = allocate(&pool, &on, 64);
    free(&pool, &on, large, 64 * MIB);
    for _ in 0..9 {
        clock.advance(Duration::from_secs(1));
        churn(&pool, &on, 100);
    }
    assert_eq!(pool.reserved_bytes(), 64 << 20, "the span is not over");
    clock.advance(Duration::from_secs(1));
    churn(&pool, &on, 100);
    assert_eq!(pool.reserved_bytes(), 64 << 20, "all of it was in use in the first span");
    clock.advance(Duration::from_secs(10));
    let kept = allocate(&pool, &on, 2);
    assert_eq!(pool.reserved_bytes(), 64 << 20, "only frees return memory");
    free(&pool, &on, kept, 2 * MIB);
    assert_eq!(pool.reserved_bytes(), 64 << 20, "the block holds on to its upstream block");
    clock.advance(Duration::from_secs(10));
    assert_eq!(pool.release_unused(), 64 << 20);
}

#[test]
fn time_and_operations_release_together() {
    let _machine = rmm_sim::enter();
    let clock = ManualClock::new();
    let builder =
        Pool::builder(CudaMemoryResource::new()).release(ReleasePolicy::Above { bytes: 48 << 20 });
    let pool = builder.release_after(Duration::from_secs(10)).clock(clock.clone()).build().unwrap();
    let on = stream();
    let blocks = [16, 16, 32].map(|mib| (allocate(&pool, &on, mib), mib * MIB));
    for (block, bytes) in blocks {
        free(&pool, &on, block, bytes);
    }
    assert_eq!(pool.reserved_bytes(), 48 << 20, "the policy needs no time");
    clock.advance(Duration::from_secs(10));
    assert_eq!(pool.release_unused(), 0);
    clock.advance(Duration::from_secs(10));
    assert_eq!(pool.release_unused(), 48 << 20);
}
