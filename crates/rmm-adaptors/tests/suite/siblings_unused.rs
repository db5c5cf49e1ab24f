//! What siblings cost a request that is refused: nothing grows with those that have nothing to
//! return, and what one has freed since is found.

use rmm_adaptors::{PoolMemoryResource, PoolPreset};
use rmm_core::{CudaStream, Resource};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::support::{MIB, Pool, free, layout, stream};

const BYTES: usize = 4096;

/// `count` pools that were used on these streams, with a block each that stays.
fn siblings(count: usize, streams: &[CudaStream]) -> Vec<(Pool, rmm_core::DevicePtr)> {
    (0..count)
        .map(|_| {
            let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
            let pool = builder.build().expect("a pool");
            for stream in streams {
                let block = pool.allocate(stream, layout(BYTES)).expect("there is memory");
                free(&pool, stream, block, BYTES);
            }
            let stays = pool.allocate(&streams[0], layout(BYTES)).expect("there is memory");
            (pool, stays)
        })
        .collect()
}

/// The driver calls of a refusal beside `count` pools, once they have returned what they can.
fn calls_beside(count: usize) -> u64 {
    let machine = Machine::builder().memory(256 * MIB).schedule(Schedule::Eager).enter();
    let streams: Vec<CudaStream> = (0..8).map(|_| stream()).collect();
    let others = siblings(count, &streams);
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let asker = builder.build().expect("a pool");
    let refuse = || {
        let before = machine.calls();
        let error = asker.allocate(&streams[0], layout(255 * MIB)).expect_err("others hold some");
        assert!(error.is_out_of_memory(), "{error}");
        machine.calls() - before
    };
    refuse();
    let calls = refuse();
    for (pool, stays) in others {
        free(&pool, &streams[0], stays, BYTES);
    }
    assert!(asker.allocate(&streams[0], layout(200 * MIB)).is_ok(), "it is found now");
    calls
}

#[test]
fn siblings_with_nothing_to_return_are_not_trimmed_again() {
    assert_eq!(calls_beside(2), calls_beside(40));
}

#[test]
fn what_is_freed_after_a_trim_is_trimmed() {
    for preset in [PoolPreset::Throughput, PoolPreset::Compact, PoolPreset::Deterministic] {
        let _machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).enter();
        let upstream = VirtualMemoryResource::new().expect("virtual memory");
        let pool = PoolMemoryResource::builder(upstream).preset(preset).build().expect("a pool");
        let (one, other) = (stream(), stream());
        let [kept, freed] = [(); 2].map(|()| pool.allocate(&one, layout(2 * MIB)).expect("room"));
        for round in 0..3 {
            pool.trim_blocking(0);
            pool.trim_blocking(0);
            let small = pool.allocate(&other, layout(1000)).expect("there is memory");
            let held = pool.reserved_bytes();
            free(&pool, &other, small, 1000);
            pool.trim_blocking(0);
            assert!(pool.reserved_bytes() <= held, "{preset:?}, round {round}");
        }
        free(&pool, &one, freed, 2 * MIB);
        let held = pool.reserved_bytes();
        assert!(pool.trim_blocking(0) >= 2 * MIB as u64, "{preset:?}: of {held}");
        free(&pool, &one, kept, 2 * MIB);
        pool.trim_blocking(0);
        assert_eq!(pool.reserved_bytes(), 0, "{preset:?}");
    }
}
