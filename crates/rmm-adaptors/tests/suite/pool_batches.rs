//! Batches of blocks that one stream's cache had too many of.

use crate::short::{Pool, free, keep_busy, layout, stream, write};
use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaEvent, CudaStream, DevicePtr, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Fault, Machine, Schedule};
use rmm_sys::CuResult;

const BYTES: usize = 256;
/// What a cache holds: a thirty-second of the pool.
const HELD: usize = 128;
const BATCH: u64 = (64 * BYTES) as u64;

/// A pool in which one stream lacks blocks that another has a batch of.
struct Batch {
    pool: Pool,
    /// The stream that freed them, with work on them under way.
    giver: CudaStream,
    taker: CudaStream,
}

/// One stream frees more than its cache holds while another lacks such blocks, and has its work
/// under way. What is left of it but the batch is taken back. The driver makes no mark of its work
/// if `is_marked` is false.
fn a_batch(machine: &Machine, is_marked: bool) -> Batch {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let bytes = 32 * HELD * BYTES;
    let builder = builder.initial_size(bytes).maximum_size(bytes);
    let pool = builder.check_frees(false).build().expect("a pool");
    let allocate = |stream: &CudaStream| pool.allocate(stream, layout(BYTES));
    let cached = || pool.statistics().cached_bytes;
    let taker = stream();
    for _ in 0..12 {
        allocate(&taker).expect("a block");
    }
    let maker = stream();
    let blocks: Vec<_> = (0..=HELD).map(|_| allocate(&maker).expect("a block")).collect();
    let made = CudaEvent::new().expect("an event");
    made.record(&maker).expect("a record");
    let at_hand = cached();
    let giver = stream();
    giver.wait(&made).expect("a wait");
    if !is_marked {
        machine.fail(Fault::from_nth("cuEventRecord", 1, CuResult::UNKNOWN));
    }
    for (tag, &block) in (0..).zip(&blocks) {
        write(machine, &giver, block, tag);
        free(&pool, &giver, block, BYTES);
    }
    // Until nothing of the stream's is left but the batch.
    while cached() > at_hand + BATCH {
        allocate(&giver).expect("a block");
    }
    assert_eq!(cached(), at_hand + BATCH);
    Batch { pool, giver, taker }
}

/// The driver makes no mark of the stream's work: the batch is nobody's before the device was
/// waited for, whatever stream takes its place in the pool.
fn an_unmarked_batch_is_nobodys(then: impl FnOnce(CudaStream)) {
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
    let _entered = machine.enter();
    let Batch { pool, giver, taker } = a_batch(&machine, false);
    then(giver);
    machine.clear_faults();
    let allocate = |stream: &CudaStream| pool.allocate(stream, layout(BYTES));
    let _in_its_place = allocate(&stream()).expect("a block");
    for tag in 0..400 {
        let block = allocate(&taker).expect("a block");
        write(&machine, &taker, block, tag);
    }
    machine.assert_no_violations();
}

#[test]
fn what_a_stream_left_for_others_is_not_theirs_before_it_is_done() {
    an_unmarked_batch_is_nobodys(drop);
}

#[test]
fn what_a_stream_has_for_others_is_not_theirs_before_it_is_done() {
    let mut giver = None;
    an_unmarked_batch_is_nobodys(|stream| giver = Some(stream));
}

/// The end of a stream is marked for the sake of a batch, too, though nothing else of it is free.
#[test]
fn what_a_stream_left_for_others_can_be_waited_for() {
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
    let _entered = machine.enter();
    let Batch { pool, giver, taker } = a_batch(&machine, true);
    (0..100).for_each(|_| keep_busy(&machine, &giver)); // more than is done while the pool asks
    drop(giver);
    let rest = pool.maximum_size().expect("a limit") - pool.statistics().live_bytes;
    for tag in 0..rest / BYTES as u64 {
        let block = pool.allocate(&taker, layout(BYTES)).expect("a block");
        write(&machine, &taker, block, tag);
    }
    let statistics = pool.statistics();
    assert_eq!((statistics.stream_waits, statistics.host_waits), (1, 0));
    machine.assert_no_violations();
}

/// A cache that is full of small blocks has to make room for large ones, which another stream
/// lacks.
#[test]
fn what_makes_room_for_blocks_of_another_size_is_not_taken_for_such() {
    const LARGE: usize = 4 * BYTES;
    let machine = Machine::builder().schedule(Schedule::Eager).build();
    let _entered = machine.enter();
    let bytes = 32 * 512 * BYTES; // a cache holds 512 small blocks
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let builder = builder.initial_size(bytes).maximum_size(bytes).check_frees(false);
    let pool = builder.build().expect("a pool");
    let allocate = |stream: &CudaStream, count: usize, bytes: usize| -> Vec<DevicePtr> {
        let block = |_| pool.allocate(stream, layout(bytes)).expect("a block");
        (0..count).map(block).collect()
    };
    let (giver, taker) = (stream(), stream());
    allocate(&taker, 12, LARGE);
    for (count, bytes) in [(600, BYTES), (100, LARGE)] {
        for block in allocate(&giver, count, bytes) {
            free(&pool, &giver, block, bytes);
        }
    }
    let mut blocks = allocate(&taker, 400, LARGE);
    blocks.sort_unstable_by_key(|block| block.0);
    let overlap = blocks.windows(2).find(|pair| pair[1].0 - pair[0].0 < LARGE as u64);
    assert_eq!(overlap, None);
}
