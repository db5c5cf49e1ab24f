//! Batches of blocks that one stream's cache had too many of.

use crate::short::{free, layout, stream, write};
use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaEvent, CudaStream, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Fault, Machine, Schedule};
use rmm_sys::CuResult;

const BYTES: usize = 256;
/// What a cache holds: a thirty-second of the pool.
const HELD: usize = 128;
const BATCH: u64 = (64 * BYTES) as u64;

/// One stream frees more than its cache holds while another lacks such blocks, and has its work under way. What is left of it but the
/// batch is taken back; `then` says what becomes of the stream, after which the other asks for more than there is elsewhere.
fn a_batch_is_left(machine: &Machine, then: impl FnOnce(CudaStream)) {
    let _entered = machine.enter();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let pool = builder.initial_size(32 * HELD * BYTES).check_frees(false).build().expect("a pool");
    let allocate = |stream: &CudaStream| pool.allocate(stream.as_ref(), layout(BYTES));
    let cached = || pool.statistics().cached_bytes;
    let taker = stream();
    for _ in 0..12 {
        allocate(&taker).expect("a block");
    }
    let maker = stream();
    let blocks: Vec<_> = (0..=HELD).map(|_| allocate(&maker).expect("a block")).collect();
    let made = CudaEvent::new().expect("an event");
    made.record(maker.as_ref()).expect("a record");
    let at_hand = cached();
    let giver = stream();
    giver.as_ref().wait(&made).expect("a wait");
    machine.fail(Fault::from_nth("cuEventRecord", 1, CuResult::UNKNOWN));
    for (tag, &block) in (0..).zip(&blocks) {
        write(machine, &giver, block, tag);
        free(&pool, &giver, block, BYTES);
    }
    // Until nothing of the stream's is left but the batch.
    while cached() > at_hand + BATCH {
        allocate(&giver).expect("a block");
    }
    assert_eq!(cached(), at_hand + BATCH);
    then(giver);
    machine.clear_faults();
    let _in_its_place = allocate(&stream()).expect("a block");
    for tag in 0..400 {
        let block = allocate(&taker).expect("a block");
        write(machine, &taker, block, tag);
    }
    machine.assert_no_violations();
}

/// The driver makes no mark of the stream's work: the batch is nobody's before the device was waited for, whatever stream takes its place
/// in the pool.
#[test]
fn what_a_stream_left_for_others_is_not_theirs_before_it_is_done() {
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
    a_batch_is_left(&machine, drop);
}

#[test]
fn what_a_stream_has_for_others_is_not_theirs_before_it_is_done() {
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
    let mut giver = None;
    a_batch_is_left(&machine, |stream| giver = Some(stream));
    let _entered = machine.enter();
    drop(giver);
}
