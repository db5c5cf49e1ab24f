//! Batches of blocks that one stream's cache had too many of.

use crate::short::{free, layout, stream, write};
use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaEvent, CudaStream, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Fault, Machine, Schedule};
use rmm_sys::CuResult;

/// One stream frees more than its cache holds while another lacks such blocks, and ends with its work under way, of which the driver
/// makes no mark. The batch that it left is nobody's before the device was waited for, whatever stream takes its place in the pool.
#[test]
fn what_a_stream_left_for_others_is_not_theirs_before_it_is_done() {
    const BYTES: usize = 256;
    // A thirty-second of it: what a cache holds.
    const HELD: usize = 128;
    const BATCH: u64 = (64 * BYTES) as u64;
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
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
    machine.fail(Fault::from_nth("cuEventRecord", 1, CuResult::UNKNOWN));
    {
        let giver = stream();
        giver.as_ref().wait(&made).expect("a wait");
        for (tag, &block) in (0..).zip(&blocks) {
            write(&machine, &giver, block, tag);
            free(&pool, &giver, block, BYTES);
        }
        // Until nothing of the stream's is left but the batch.
        while cached() > at_hand + BATCH {
            allocate(&giver).expect("a block");
        }
        assert_eq!(cached(), at_hand + BATCH);
    }
    machine.clear_faults();
    let _in_its_place = allocate(&stream()).expect("a block");
    for tag in 0..400 {
        let block = allocate(&taker).expect("a block");
        write(&machine, &taker, block, tag);
    }
    machine.assert_no_violations();
}
