//! Tests of what a wait for a stream orders: after that stream, and after everything that stream
//! had waited for, and nothing else.

use std::time::Duration;

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaStream, DevicePtr, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Kernel, Machine, Schedule};

use crate::support::{MIB, Pool, free, layout, mib, stream};

/// A pool with a fixed amount of memory.
fn pool(bytes: u64) -> Pool {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    builder.initial_size(bytes).maximum_size(bytes).build().expect("a pool")
}

/// Allocates a block and enqueues a write to it that does not complete during the test.
fn use_block(machine: &Machine, pool: &Pool, stream: &CudaStream, bytes: usize) -> DevicePtr {
    let block = pool.allocate(stream, layout(bytes)).expect("a block");
    let work = Kernel::new("write", |_| {}).writes(block, 8).lasts(Duration::from_secs(1000));
    machine.launch(stream.as_raw(), work).expect("a launch");
    block
}

#[test]
fn a_wait_covers_what_the_other_stream_waited_for() {
    let machine = Machine::builder().schedule(Schedule::Timed).enter();
    let pool = pool(mib(6));
    let [first, second, third] = [(); 3].map(|()| stream());
    let block = use_block(&machine, &pool, &first, 6 * MIB);
    free(&pool, &first, block, 6 * MIB);
    let block = use_block(&machine, &pool, &second, 4 * MIB);
    free(&pool, &second, block, 4 * MIB);
    use_block(&machine, &pool, &third, 4 * MIB);
    assert_eq!(pool.statistics().stream_waits, 2);
    use_block(&machine, &pool, &third, 2 * MIB);
    let statistics = pool.statistics();
    assert_eq!((statistics.stream_waits, statistics.host_waits), (2, 0), "it is behind the first");
    machine.run_all();
    machine.assert_no_violations();
}

#[test]
fn waits_of_a_destroyed_stream_order_no_other_stream() {
    let machine = Machine::builder().schedule(Schedule::Timed).enter();
    let pool = pool(mib(10));
    let [first, other, third, last] = [(); 4].map(|()| stream());
    let others = use_block(&machine, &pool, &other, 4 * MIB);
    let block = use_block(&machine, &pool, &first, 6 * MIB);
    free(&pool, &first, block, 6 * MIB);
    // It waits for the first stream, is waited for itself, and is destroyed with no free memory in
    // the pool.
    let gone = stream();
    let block = use_block(&machine, &pool, &gone, 4 * MIB);
    free(&pool, &gone, block, 4 * MIB);
    use_block(&machine, &pool, &third, 4 * MIB);
    drop(gone);
    // The other stream is not ordered after the first, nor is one that waits for it.
    free(&pool, &other, others, 4 * MIB);
    use_block(&machine, &pool, &last, 4 * MIB);
    assert_eq!(pool.statistics().stream_waits, 3);
    use_block(&machine, &pool, &last, 2 * MIB);
    assert_eq!(pool.statistics().stream_waits, 4);
    machine.run_all();
    machine.assert_no_violations();
}
