//! Frees of blocks with recorded streams while streams are captured.

use rmm_rs::frameworks::client::rmm_rs_client_settle;
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
