//! Arguments: null, unknown pointers, fractions.

use std::ffi::c_void;
use std::mem::{offset_of, size_of};
use std::ptr;

use rmm_rs::calls::pool_walk::PoolBlockInfo;
use rmm_rs::frameworks::client::counts::{ClientStat, ClientStatistics};
use rmm_rs::frameworks::client::walk::ClientBlock;
use rmm_rs::frameworks::client::*;
use rmm_rs::frameworks::torch::*;
use rmm_rs::handle::status::{RMM_RS_INVALID_ARGUMENT, RMM_RS_OUT_OF_MEMORY};

use super::fixtures::*;

#[test]
fn the_structures_have_their_layout() {
    assert_eq!(size_of::<ClientStat>(), 32);
    assert_eq!(size_of::<ClientStatistics>(), 8 + 5 * 3 * 32);
    assert_eq!(offset_of!(ClientStatistics, allocation), 8);
    assert_eq!(offset_of!(ClientStatistics, active_bytes), 8 + 4 * 3 * 32);
    assert_eq!(size_of::<ClientBlock>(), 72);
    assert_eq!(offset_of!(ClientBlock, pointer), 8);
    assert_eq!(offset_of!(ClientBlock, stream), 40);
    assert_eq!(offset_of!(ClientBlock, is_pending), 56);
    assert_eq!(offset_of!(ClientBlock, client), 64);
    assert_eq!(size_of::<PoolBlockInfo>(), 56);
    assert_eq!(offset_of!(PoolBlockInfo, segment_base), 16);
    assert_eq!(offset_of!(PoolBlockInfo, stream), 40);
    assert_eq!(offset_of!(PoolBlockInfo, is_live), 49);
}

#[test]
fn null_is_freed_and_recorded_and_anything_else_is_known() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let [own, other] = [(); 2].map(|()| Stream::new());
    free(ptr::null_mut());
    record(ptr::null_mut(), &own);
    assert!(find(ptr::null_mut()).is_none());
    assert!(client.allocate(&own, 0).is_null());

    let unknown: *mut c_void = ptr::without_provenance_mut(0x1234_5600);
    record(unknown, &own);
    assert_eq!(c!(rmm_rs_client_free(unknown)), RMM_RS_INVALID_ARGUMENT);
    assert!(last_error().contains("0x12345600"), "{}", last_error());
    assert!(find(unknown).is_none());

    let block = client.allocate(&own, 4096);
    free(block);
    assert_eq!(c!(rmm_rs_client_free(block)), RMM_RS_INVALID_ARGUMENT, "it was freed");
    let pending = client.allocate(&own, 4096);
    other.wait_for(&own);
    other.keep_busy(pending);
    record(pending, &other);
    free(pending);
    let freed = client.statistics();
    assert_eq!(c!(rmm_rs_client_free(pending)), RMM_RS_INVALID_ARGUMENT, "it is pending");
    assert_eq!(client.statistics(), freed);
}

#[test]
fn null_handles_and_places_are_refused() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let (none, mut made, mut block) = (ptr::null::<ClientHandle>(), ptr::null(), ptr::null_mut());
    let statuses = c!([
        rmm_rs_client_new(0, ptr::null(), ptr::null_mut()),
        rmm_rs_client_new(-1, ptr::null(), &raw mut made),
        rmm_rs_client_new(77, ptr::null(), &raw mut made),
        rmm_rs_client_allocate(none, ptr::null(), ptr::null_mut(), 1, &raw mut block),
        rmm_rs_client_allocate(client.0, ptr::null(), ptr::null_mut(), 1, ptr::null_mut()),
        rmm_rs_client_walk(none, ptr::null(), None, ptr::null_mut()),
        rmm_rs_client_walk(client.0, ptr::null(), None, ptr::null_mut()),
        rmm_rs_client_statistics_get(none, ptr::null_mut()),
        rmm_rs_client_statistics_get(client.0, ptr::null_mut()),
        rmm_rs_client_reset_peaks(none),
        rmm_rs_client_reset_accumulated(none),
        rmm_rs_client_settle(none, true),
        rmm_rs_client_set_memory_fraction(none, 0.5),
        rmm_rs_client_memory_fraction(none, ptr::null_mut()),
        rmm_rs_client_memory_fraction(client.0, ptr::null_mut()),
    ]);
    assert_eq!(statuses, [RMM_RS_INVALID_ARGUMENT; 15]);
    assert!(c!(rmm_rs_client_retain(none)).is_null());
    c!(rmm_rs_client_release(none));
}

#[test]
fn the_memory_fraction_limits_the_allocated_bytes() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let [own, other] = [(); 2].map(|()| Stream::new());
    let fraction = |client: &Client| {
        let mut fraction = -1.0;
        ok(c!(rmm_rs_client_memory_fraction(client.0, &raw mut fraction)));
        fraction
    };
    assert!((fraction(&client) - 1.0).abs() < f64::EPSILON);
    for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let status = c!(rmm_rs_client_set_memory_fraction(client.0, wrong));
        assert_eq!(status, RMM_RS_INVALID_ARGUMENT, "{wrong}");
    }
    // Of 16 GiB, these are 4 MiB.
    let part = 1.0 / 4096.0;
    ok(c!(rmm_rs_client_set_memory_fraction(client.0, part)));
    assert!((fraction(&client) - part).abs() < f64::EPSILON);
    let first = client.allocate(&own, 3 * MIB);
    let before = client.statistics();
    assert_eq!(client.try_allocate(&own, MIB + 1), Err(RMM_RS_OUT_OF_MEMORY));
    assert!(last_error().contains("memory fraction"), "{}", last_error());
    assert_eq!(client.statistics(), before, "a refusal is in no peak");
    let second = client.allocate(&own, MIB);
    assert_eq!(client.try_allocate(&own, 1), Err(RMM_RS_OUT_OF_MEMORY));
    // A pending block does not count.
    other.wait_for(&own);
    other.keep_busy(first);
    record(first, &other);
    free(first);
    assert_eq!(is_pending(first), Some(true));
    free(client.allocate(&own, 3 * MIB));
    ok(c!(rmm_rs_client_set_memory_fraction(client.0, 1.0)));
    free(client.allocate(&own, 64 * MIB));
    free(second);
}

#[test]
fn a_failed_allocation_is_in_no_statistics() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda, max=4MiB)");
    let own = Stream::new();
    assert_eq!(client.try_allocate(&own, 5 * MIB), Err(RMM_RS_OUT_OF_MEMORY));
    assert_eq!(client.try_allocate(&own, usize::MAX), Err(RMM_RS_OUT_OF_MEMORY));
    assert_eq!(client.statistics(), ClientStatistics::default());
}

#[test]
fn torch_and_clients_share_one_table() {
    let _test = Test::begin();
    let own = Stream::new();
    let block = c!(rmm_rs_torch_allocate(1000, 0, own.raw()));
    let found = find(block).expect("it is in the table");
    assert_eq!((found.requested, found.bytes, found.device), (1000, 1024, 0));
    assert_eq!((found.stream, found.pool), (own.raw(), ptr::null()));
    // A free of another size is refused, and the block stays.
    c!(rmm_rs_torch_deallocate(block, 999, 0, own.raw()));
    assert!(last_error().contains("999 bytes"), "{}", last_error());
    assert_eq!(is_pending(block), Some(false));
    free(block);
    assert!(find(block).is_none());
}
