//! Blocks that were freed and wait for recorded streams.

use std::ptr;

use rmm_rs::frameworks::client::{rmm_rs_client_retain, rmm_rs_client_settle};
use rmm_rs::handle::status::RMM_RS_OUT_OF_MEMORY;

use super::fixtures::*;

/// A block that `other` uses, too, and was recorded for, after the work of its own stream.
fn shared(client: &Client, own: &Stream, other: &Stream, bytes: usize) -> *mut std::ffi::c_void {
    let block = client.allocate(own, bytes);
    own.fill(block, bytes);
    other.wait_for(own);
    other.fill(block, bytes);
    record(block, other);
    block
}

#[test]
fn a_slow_stream_holds_up_no_other_block() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let [own, slow, fast] = [(); 3].map(|()| Stream::new());
    let scratch = client.allocate(&slow, MIB);
    slow.keep_busy(scratch);
    let first = shared(&client, &own, &slow, MIB);
    free(first);
    let others: Vec<_> = (0..20).map(|_| shared(&client, &own, &fast, MIB)).collect();
    for &block in &others {
        free(block);
        assert_eq!(is_pending(block), Some(true));
    }
    fast.0.synchronize().expect("it completes");
    // Each call returns some; the oldest of all stays.
    for _ in 0..10 {
        free(client.allocate(&own, 64 * MIB));
    }
    assert!(others.iter().all(|&block| find(block).is_none()));
    assert_eq!(is_pending(first), Some(true));

    client.settle();
    assert!(find(first).is_none());
    free(scratch);
}

#[test]
fn a_block_waits_for_all_of_its_streams() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let [own, first, second] = [(); 3].map(|()| Stream::new());
    let scratch = client.allocate(&second, MIB);
    second.keep_busy(scratch);
    let block = shared(&client, &own, &first, MIB);
    second.wait_for(&own);
    record(block, &second);
    free(block);
    first.0.synchronize().expect("it completes");
    client.poll();
    assert_eq!(is_pending(block), Some(true));
    second.0.synchronize().expect("it completes");
    client.poll();
    assert!(find(block).is_none());
    // In the order of its own stream.
    assert_eq!(client.allocate(&own, MIB), block);
    free(block);
    free(scratch);
}

#[test]
fn a_request_waits_for_pending_blocks_before_it_fails() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda, max=8MiB)");
    let [own, other] = [(); 2].map(|()| Stream::new());
    let block = shared(&client, &own, &other, 6 * MIB);
    other.keep_busy(block);
    free(block);
    assert_eq!(is_pending(block), Some(true));
    // Beyond the limit even so.
    assert_eq!(client.try_allocate(&own, 9 * MIB), Err(RMM_RS_OUT_OF_MEMORY));
    let again = shared(&client, &own, &other, 6 * MIB);
    other.keep_busy(again);
    free(again);
    let third = client.allocate(&own, 7 * MIB);
    own.fill(third, 7 * MIB);
    assert!(find(again).is_none() || again == third);
    free(third);
}

#[test]
fn the_blocks_own_stream_is_nothing_to_wait_for() {
    let (_test, client, [own], block) = begin_with_block();
    own.keep_busy(block);
    record(block, &own);
    free(block);
    assert!(find(block).is_none());
    assert_eq!(client.allocate(&own, MIB), block);
    free(block);
}

#[test]
fn the_work_of_a_destroyed_stream_is_waited_for() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let [own, other] = [(); 2].map(|()| Stream::new());
    let of_own = client.allocate(&own, MIB);
    own.keep_busy(of_own);
    let pending = shared(&client, &own, &other, MIB);
    let of_other = shared(&client, &other, &own, MIB);
    free(pending);
    drop(own);
    // It was recorded for one block, and is the stream of an allocated and of a pending one.
    free(of_other);
    let again = client.allocate(&other, MIB);
    assert_eq!(again, of_other);
    other.fill(again, MIB);
    free(again);
    free(of_own);
    client.settle();
    assert!(client.walk(ptr::null()).is_empty());
    for bytes in [MIB; 3] {
        let block = client.allocate(&other, bytes);
        other.fill(block, bytes);
    }
    for block in client.walk(ptr::null()) {
        free(block.pointer);
    }
}

#[test]
fn a_block_is_freed_whichever_device_is_current() {
    let _test = Test::begin();
    let theirs = {
        let _other = device(1);
        Stream::new()
    };
    let client = Client::new(0, ptr::null());
    let own = Stream::new();
    let legacy = ptr::null_mut();
    let without_a_pool = Client::of_spec("cuda");
    let _other = device(1);
    let before = MACHINE.memory_in_use(0);
    for stream in [own.raw(), legacy] {
        let whole = without_a_pool.try_allocate_from(ptr::null(), stream, MIB);
        assert!(MACHINE.memory_in_use(0) >= before + MIB, "it is of its own device");
        free(whole.expect("there is memory"));
        assert_eq!(MACHINE.memory_in_use(0), before);
    }
    let plain = client.try_allocate_from(ptr::null(), legacy, MIB).expect("there is memory");
    let recorded = client.allocate(&own, MIB);
    {
        let _own = device(0);
        fill(rmm_core::StreamRef::legacy(), plain, MIB);
        own.fill(recorded, MIB);
    }
    record(recorded, &theirs);
    ok(c!(rmm_rs::frameworks::client::rmm_rs_client_record_stream(recorded, legacy)));
    free(plain);
    free(recorded);
    client.settle();
    assert!(find(plain).is_none() && find(recorded).is_none());
    let [plain, recorded] = [(); 2].map(|()| client.allocate(&own, MIB));
    {
        let _own = device(0);
        own.fill(plain, MIB);
        own.fill(recorded, MIB);
    }
    assert_eq!(find(plain).expect("it is allocated").device, 0);
    free(plain);
    free(recorded);
}

#[test]
fn the_last_reference_of_c_waits_for_pending_blocks() {
    let _test = Test::begin();
    let pool = Pool::of_spec("pool(cuda)");
    let client = Client::new(0, pool.0);
    let second = Client(c!(rmm_rs_client_retain(client.0)));
    let [own, other] = [(); 2].map(|()| Stream::new());
    let pending = shared(&client, &own, &other, MIB);
    let kept = client.allocate(&own, MIB);
    other.keep_busy(pending);
    free(pending);
    drop(client);
    assert_eq!(is_pending(pending), Some(true));
    drop(second);
    assert!(find(pending).is_none());
    // What is allocated stays so, with its client and resource.
    drop(pool);
    own.fill(kept, MIB);
    assert_eq!(is_pending(kept), Some(false));
    free(kept);
    MACHINE.run_all();
}

#[test]
fn a_poll_waits_for_nothing() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let [own, other] = [(); 2].map(|()| Stream::new());
    let block = shared(&client, &own, &other, MIB);
    other.keep_busy(block);
    free(block);
    let waits = || {
        let counts = MACHINE.call_counts();
        let all = counts.iter().filter(|(name, _)| name.contains("Synchronize"));
        all.map(|(_, count)| count).sum::<u64>()
    };
    let before = waits();
    client.poll();
    assert_eq!(waits(), before);
    assert_eq!(is_pending(block), Some(true));
    ok(c!(rmm_rs_client_settle(client.0, true)));
    assert!(waits() > before);
}
