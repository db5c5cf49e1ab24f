//! Frees of blocks with recorded streams while streams are captured.

use std::ptr;

use rmm_core::sys::{CuCaptureMode, CuEvent, CuGraph, CuResult, Driver};
use rmm_rs::frameworks::client::{
    rmm_rs_client_free, rmm_rs_client_free_for_graph, rmm_rs_client_record_stream,
    rmm_rs_client_settle, rmm_rs_graph_block_release,
};
use rmm_rs::handle::status::{RMM_RS_INVALID_ARGUMENT, RMM_RS_NOT_READY};
use rmm_rs::streams::capture::{rmm_rs_capture_announce, rmm_rs_capture_withdraw};

use super::fixtures::*;

/// Events that were recorded so far.
fn records() -> u64 {
    let counts = MACHINE.call_counts();
    let records = counts.iter().find(|(name, _)| *name == "cuEventRecord");
    records.map_or(0, |(_, count)| *count)
}

#[test]
fn a_stream_recorded_during_a_capture_needs_no_event() {
    let (_test, client, [own, captured], block) = begin_with_block();
    ok(rmm_rs_capture_announce());
    let before = records();
    capture(&captured, || {
        captured.fill(block, MIB);
        record(block, &captured);
        free(block);
        client.poll();
        assert_eq!(is_pending(block), Some(true));
    });
    client.poll();
    assert_eq!(is_pending(block), Some(true), "the capture is still announced");
    ok(rmm_rs_capture_withdraw());
    let other = client.allocate(&own, 64 * MIB);
    assert!(find(block).is_none(), "the first call after the capture");
    assert_eq!(records(), before);
    free(other);
}

#[test]
fn a_stream_recorded_before_a_capture_gets_its_event_after_it() {
    let (_test, client, [own, captured], block) = begin_with_block();
    captured.wait_for(&own);
    captured.keep_busy(block);
    record(block, &captured);
    ok(rmm_rs_capture_announce());
    capture(&captured, || {
        record(block, &captured);
        free(block);
        let status = c!(rmm_rs_client_settle(client.0, true));
        assert_eq!(status, RMM_RS_NOT_READY, "a wait would invalidate the capture");
    });
    ok(rmm_rs_capture_withdraw());
    client.poll();
    assert_eq!(is_pending(block), Some(true), "the work before the capture goes on");
    client.settle();
    assert!(find(block).is_none());
    let again = client.allocate(&own, MIB);
    own.fill(again, MIB);
    free(again);
}

#[test]
fn a_stream_that_is_not_captured_gets_its_event_after_the_capture() {
    let (_test, client, [own, captured, eager], block) = begin_with_block();
    ok(rmm_rs_capture_announce());
    capture(&captured, || {
        eager.keep_busy(block);
        record(block, &eager);
        free(block);
    });
    ok(rmm_rs_capture_withdraw());
    client.poll();
    assert_eq!(is_pending(block), Some(true));
    let again = client.allocate(&own, MIB);
    assert_ne!(again, block);
    own.fill(again, MIB);
    client.settle();
    assert!(find(block).is_none());
    free(again);
}

#[test]
fn a_stream_recorded_in_a_capture_and_outside_gets_its_event() {
    let (_test, client, [own, captured], block) = begin_with_block();
    ok(rmm_rs_capture_announce());
    capture(&captured, || record(block, &captured));
    captured.wait_for(&own);
    captured.keep_busy(block);
    record(block, &captured);
    capture(&captured, || free(block));
    ok(rmm_rs_capture_withdraw());
    client.poll();
    assert_eq!(is_pending(block), Some(true), "the work outside of captures goes on");
    client.settle();
    assert!(find(block).is_none());
}

#[test]
fn a_capture_that_is_not_announced_defers_frees_too() {
    let (_test, client, [own, captured], block) = begin_with_block();
    captured.wait_for(&own);
    captured.keep_busy(block);
    record(block, &captured);
    capture(&captured, || {
        free(block);
        free(client.allocate(&own, 1000));
        assert_eq!(c!(rmm_rs_client_settle(client.0, true)), RMM_RS_NOT_READY);
        assert_eq!(is_pending(block), Some(true));
    });
    client.settle();
    assert!(find(block).is_none());
}

#[test]
fn announcements_are_counted() {
    let _test = Test::begin();
    assert_eq!(rmm_rs_capture_withdraw(), RMM_RS_INVALID_ARGUMENT);
    ok(rmm_rs_capture_announce());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = MACHINE.enter();
            ok(rmm_rs_capture_announce());
        });
    });
    assert!(rmm_core::CaptureScope::is_announced());
    ok(rmm_rs_capture_withdraw());
    assert!(rmm_core::CaptureScope::is_announced());
    ok(rmm_rs_capture_withdraw());
    assert!(!rmm_core::CaptureScope::is_announced());
    assert_eq!(rmm_rs_capture_withdraw(), RMM_RS_INVALID_ARGUMENT);
}

#[test]
fn streams_that_were_never_used_are_captured() {
    let (_test, client, [own], block) = begin_with_block();
    let [captured, joined] = [(); 2].map(|()| {
        // As another library makes them: unknown here.
        let theirs = rmm_core::CudaStream::non_blocking().expect("a stream");
        theirs.into_raw().expect("it is the only handle")
    });
    let driver = Driver::get().expect("the software driver");
    ok(rmm_rs_capture_announce());
    let begun = c!(driver.cuStreamBeginCapture_v2(captured, CuCaptureMode::GLOBAL));
    assert_eq!(begun, CuResult::SUCCESS);
    ok(c!(rmm_rs_client_record_stream(block, captured.as_raw())));
    let mut event = CuEvent::NULL;
    assert_eq!(c!(driver.cuEventCreate(&raw mut event, 2)), CuResult::SUCCESS);
    assert_eq!(c!(driver.cuEventRecord(event, captured)), CuResult::SUCCESS);
    assert_eq!(c!(driver.cuStreamWaitEvent(joined, event, 0)), CuResult::SUCCESS);
    ok(c!(rmm_rs_client_record_stream(block, joined.as_raw())));
    assert_eq!(c!(driver.cuEventRecord(event, joined)), CuResult::SUCCESS);
    assert_eq!(c!(driver.cuStreamWaitEvent(captured, event, 0)), CuResult::SUCCESS);
    free(block);
    let mut graph = CuGraph::NULL;
    let ended = c!(driver.cuStreamEndCapture(captured, &raw mut graph));
    assert_eq!(ended, CuResult::SUCCESS, "no call has ended the capture");
    assert_eq!(c!(driver.cuGraphDestroy(graph)), CuResult::SUCCESS);
    ok(rmm_rs_capture_withdraw());
    client.settle();
    free(client.allocate(&own, MIB));
}

#[test]
fn a_block_that_a_graph_uses_stays_until_it_is_released() {
    let (_test, client, [own, other], block) = begin_with_block();
    let statistics = || {
        let all = client.statistics();
        [all.allocation[0].current, all.active[0].current, all.active_bytes[0].freed]
    };
    let mut kept = ptr::null();
    ok(rmm_rs_capture_announce());
    capture(&own, || {
        own.fill(block, MIB);
        ok(c!(rmm_rs_client_free_for_graph(block, &raw mut kept)));
    });
    ok(rmm_rs_capture_withdraw());
    assert_eq!(statistics(), [0, 0, 1 << 20]);
    assert!(find(block).is_none());
    assert_eq!(c!(rmm_rs_client_free(block)), RMM_RS_INVALID_ARGUMENT, "it was freed");
    client.settle();
    let next = client.allocate(&own, MIB);
    assert_ne!(next, block, "a launch may use it");
    c!(rmm_rs_graph_block_release(kept));
    assert_eq!(statistics(), [1, 1, 1 << 20]);
    free(next);
    let all = [(); 2].map(|()| client.allocate(&other, MIB));
    assert!(all.contains(&block), "another stream may have it now");
    all.into_iter().for_each(free);

    let mut none = ptr::dangling();
    let unknown = ptr::without_provenance_mut(0x1234_5600);
    for pointer in [ptr::null_mut(), unknown, block] {
        let status = c!(rmm_rs_client_free_for_graph(pointer, &raw mut none));
        assert_eq!((status, none), (RMM_RS_INVALID_ARGUMENT, ptr::null()));
    }
    let status = c!(rmm_rs_client_free_for_graph(block, ptr::null_mut()));
    assert_eq!(status, RMM_RS_INVALID_ARGUMENT);
    c!(rmm_rs_graph_block_release(ptr::null()));
}
