//! Driver calls that fail: no block is lost, and none comes back too early.

use std::ptr;

use rmm_core::sys::CuResult;
use rmm_sim::Fault;

use super::fixtures::*;

#[test]
fn an_event_that_cannot_be_recorded_is_recorded_later() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let [own, first, second] = [(); 3].map(|()| Stream::new());
    for call in ["cuEventCreate", "cuEventRecord"] {
        for nth in [1, 2] {
            let block = client.allocate(&own, MIB);
            for other in [&first, &second] {
                other.wait_for(&own);
                record(block, other);
            }
            first.keep_busy(block);
            MACHINE.fail(Fault::nth(call, nth, CuResult::UNKNOWN));
            free(block);
            MACHINE.clear_faults();
            assert_eq!(is_pending(block), Some(true), "{call} {nth}");
            client.poll();
            assert_eq!(is_pending(block), Some(true), "{call} {nth}: it is in use");
            client.settle();
            assert!(find(block).is_none(), "{call} {nth}");
        }
    }
}

#[test]
fn a_pending_block_that_cannot_come_back_stays_pending() {
    let (_test, client, [own, other], block) = begin_with_block();
    other.wait_for(&own);
    other.fill(block, MIB);
    record(block, &other);
    free(block);
    drop(own);
    other.0.synchronize().expect("it completes");
    MACHINE.fail(Fault::nth("cuCtxSynchronize", 1, CuResult::UNKNOWN));
    client.poll();
    MACHINE.clear_faults();
    assert_eq!(is_pending(block), Some(true));
    client.poll();
    assert!(find(block).is_none());
    assert_eq!(client.statistics().active[0].current, 0);
}

#[test]
fn a_free_that_cannot_wait_for_the_device_is_tried_again() {
    let (_test, client, [own], block) = begin_with_block();
    own.keep_busy(block);
    drop(own);
    MACHINE.fail(Fault::nth("cuCtxSynchronize", 1, CuResult::UNKNOWN));
    free(block);
    MACHINE.clear_faults();
    let statistics = client.statistics();
    assert_eq!((statistics.allocation[0].current, statistics.active[0].current), (0, 1));
    assert_eq!(client.walk(ptr::null()).len(), 1);
    client.poll();
    assert!(find(block).is_none());
    assert_eq!(client.statistics().active[0].current, 0);
}
