//! Tests of the transfer cache: batches of blocks that one stream's cache could not hold.

use crate::support::{Pool, free, keep_busy, layout, stream, write};
use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaEvent, CudaStream, DevicePtr, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Fault, Machine, Schedule};
use rmm_sys::CuResult;

const BYTES: usize = 8192;
/// The capacity of a cache: a thirty-second of the pool.
const HELD: usize = 128;
const BATCH: u64 = (64 * BYTES) as u64;

/// A pool in which one stream misses in a size class of which another has a batch.
struct Batch {
    pool: Pool,
    /// The stream that freed the batch, with pending work.
    giver: CudaStream,
    taker: CudaStream,
}

/// One stream frees more than its cache holds while another misses in that size class; the first
/// has pending work. All of its free blocks except the batch are then allocated again. If
/// `is_marked` is false, the driver fails to record events on it.
fn a_batch(machine: &Machine, is_marked: bool) -> Batch {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let bytes = (32 * HELD * BYTES) as u64;
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
    maker.synchronize().expect("the driver works");
    let cached_before = cached();
    let giver = stream();
    giver.wait(&made).expect("a wait");
    if !is_marked {
        machine.fail(Fault::from_nth("cuEventRecord", 1, CuResult::UNKNOWN));
    }
    for (tag, &block) in (0..).zip(&blocks) {
        write(machine, &giver, block, tag);
        free(&pool, &giver, block, BYTES);
    }
    // Until only the batch is left of the stream's free memory.
    while cached() > cached_before + BATCH {
        allocate(&giver).expect("a block");
    }
    assert_eq!(cached(), cached_before + BATCH);
    Batch { pool, giver, taker }
}

/// The driver fails to record an event on the stream: the batch is withheld until the pool has
/// waited for the device, whichever stream gets the slot of the destroyed one.
fn an_unrecorded_batch_is_withheld<Kept>(then: impl FnOnce(CudaStream) -> Kept) {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let Batch { pool, giver, taker } = a_batch(&machine, false);
    let _giver = then(giver);
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
fn a_batch_of_a_destroyed_stream_is_withheld_until_done() {
    an_unrecorded_batch_is_withheld(drop);
}

#[test]
fn a_batch_of_a_busy_stream_is_withheld_until_done() {
    an_unrecorded_batch_is_withheld(|giver| giver);
}

/// An event is recorded at the end of a stream for the sake of a batch alone.
#[test]
fn a_batch_of_a_destroyed_stream_can_be_waited_for() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
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

/// A cache that is full of small blocks evicts them for large ones, in whose size class another
/// stream misses.
#[test]
fn evicted_blocks_keep_their_own_size_class() {
    const LARGE: usize = 4 * BYTES;
    let _machine = Machine::builder().schedule(Schedule::Eager).enter();
    let bytes = (32 * 512 * BYTES) as u64; // a cache holds 512 small blocks
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
