//! Tests of pools that would fall asleep while a graph may use their memory.

use rmm_adaptors::{Contents, PoolMemoryResource, SleepOptions};
use rmm_core::{CaptureScope, Error, Resource};
use rmm_resources::VirtualMemoryResource;
use rmm_sim::{Machine, Schedule};

use crate::graph_support::{alone, begin, end, fill};
use crate::support::{MIB, free, layout, stream};

type Pool = PoolMemoryResource;

fn sleep(pool: &Pool) -> Result<u64, Error> {
    // SAFETY: no work uses the pool's memory while it sleeps: each graph is launched before.
    unsafe { pool.sleep_with(SleepOptions::new(Contents::ToHost).wait_for_work(true)) }
}

#[test]
fn a_pool_stays_awake_for_captures_and_graphs() {
    let _alone = alone();
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).enter();
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let pool = Pool::builder(upstream).initial_size(4 << 20).build().expect("a pool");
    let stream = stream();
    let scope = CaptureScope::announce();
    begin(&stream);
    let block = pool.allocate(&stream, layout(MIB)).expect("there is memory");
    fill(&stream, block, MIB);
    let error = sleep(&pool).expect_err("a capture is in progress");
    assert!(error.is_unsupported() && error.to_string().contains("capture"), "{error}");
    free(&pool, &stream, block, MIB);
    end(&stream);
    drop(scope);
    let error = sleep(&pool).expect_err("the graph may be launched");
    assert!(error.is_unsupported() && error.to_string().contains("graph"), "{error}");
    assert!(!pool.is_asleep());
    // SAFETY: the graph was never launched and never is.
    unsafe { pool.release_graph_memory() };
    sleep(&pool).expect("no graph is left");
    pool.wake().expect("it wakes up");
    machine.assert_no_violations();
}

/// What is captured on another stream, in a pool that sleeps, is refused like any request.
#[test]
fn a_pool_that_sleeps_gives_a_capture_no_memory() {
    let _alone = alone();
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).enter();
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let pool = Pool::builder(upstream).initial_size(4 << 20).build().expect("a pool");
    let stream = stream();
    sleep(&pool).expect("it falls asleep");
    let scope = CaptureScope::announce();
    begin(&stream);
    assert!(pool.allocate(&stream, layout(MIB)).expect_err("it sleeps").is_not_ready());
    end(&stream);
    drop(scope);
    pool.wake().expect("it wakes up");
    machine.assert_no_violations();
}
