//! Tests of the events that a pool keeps for a stream, and the frees that each of them covers.

use rmm_core::{CudaStream, Resource, StreamLifetime};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Fault, Machine, Schedule};
use rmm_sys::CuResult;

use crate::fixtures::pool_on;
use crate::support::{Pool, free, keep_busy, layout, stream, write};

const KIB: usize = 1 << 10;
/// More than the events that a pool keeps for one stream.
const BLOCKS: usize = 64;

#[test]
fn an_event_merged_into_the_newest_covers_later_frees() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let limit = (BLOCKS * 64 * KIB) as u64;
    let pool = Pool::builder(CudaMemoryResource::new()).maximum_size(limit).build().unwrap();
    let (theirs, other) = (stream(), stream());
    // Each free on such a stream records an event.
    // SAFETY: `theirs` lives to the end of the test.
    let foreign = unsafe { CudaStream::adopt(theirs.as_raw(), StreamLifetime::Unknown) }.unwrap();
    let size = layout(64 * KIB);
    let blocks: Vec<_> = (0..BLOCKS).map(|_| pool.allocate(&foreign, size).unwrap()).collect();
    for (tag, &block) in (0..).zip(&blocks) {
        // Each event query makes the device complete one item: it falls behind.
        for _ in 0..4 {
            keep_busy(&machine, &foreign);
        }
        write(&machine, &foreign, block, tag);
        free(&pool, &foreign, block, 64 * KIB);
    }
    let taken: Vec<_> = (0..BLOCKS).map(|_| pool.allocate(&other, size).unwrap()).collect();
    for &block in &taken {
        write(&machine, &other, block, u64::MAX);
    }
    assert_eq!(pool.statistics().host_waits, 0);
    machine.assert_no_violations();
    for block in taken {
        free(&pool, &other, block, 64 * KIB);
    }
}

#[test]
fn frees_without_an_event_stay_when_a_stream_is_forgotten() {
    let (machine, _entered, pool, [theirs]) =
        pool_on(Machine::builder().schedule(Schedule::Lazy).build(), |builder| {
            builder.initial_size(16 << 20)
        });
    // SAFETY: `theirs` lives to the end of the test.
    let foreign = unsafe { CudaStream::adopt(theirs.as_raw(), StreamLifetime::Unknown) }.unwrap();
    let block = pool.allocate(&foreign, layout(64 * KIB)).unwrap();
    write(&machine, &foreign, block, 1);
    machine.fail(Fault::from_nth("cuEventRecord", 1, CuResult::UNKNOWN));
    free(&pool, &foreign, block, 64 * KIB);
    machine.clear_faults();
    // Enough for the pool to reuse the slots of some.
    let others: Vec<_> = (0..100).map(|_| stream()).collect();
    for (tag, other) in (2..).zip(&others) {
        let block = pool.allocate(other, layout(64 * KIB)).unwrap();
        write(&machine, other, block, tag);
    }
    machine.assert_no_violations();
}

/// The stream is destroyed, and no event could be recorded on it. One of the context serves.
#[test]
fn a_failed_last_event_leaves_memory_in_reach() {
    const SIZE: usize = 2 << 20;
    for schedule in [Schedule::Eager, Schedule::Lazy] {
        let machine = Machine::builder().schedule(schedule).build();
        let (machine, _entered, pool, [gone, heir]) =
            pool_on(machine, |builder| builder.maximum_size(SIZE as u64));
        let block = pool.allocate(&gone, layout(SIZE)).unwrap();
        write(&machine, &gone, block, 1);
        free(&pool, &gone, block, SIZE);
        machine.fail(Fault::from_nth("cuEventRecord", 1, CuResult::UNKNOWN));
        drop(gone);
        machine.clear_faults();
        let block = pool.allocate(&heir, layout(SIZE)).unwrap();
        write(&machine, &heir, block, 2);
        assert_eq!(pool.statistics().host_waits, 0);
        machine.assert_no_violations();
    }
}
