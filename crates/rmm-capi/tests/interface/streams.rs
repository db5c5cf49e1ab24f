//! Tests of how raw stream handles are identified.

use std::ptr;

use rmm_core::CudaStream;
use rmm_rs::calls::pool::*;
use rmm_rs::handle::status::*;
use rmm_rs::streams::stream::*;
use rmm_sim::Machine;

use super::common::*;
use super::resources::calls_of;

fn adopt(handle: *mut std::ffi::c_void, lifetime: u32) -> *mut StreamHandle {
    let mut stream = ptr::null_mut();
    let status = c!(rmm_rs_stream_adopt(handle, lifetime, &raw mut stream));
    assert_eq!(status, RMM_RS_OK, "{}", last_error());
    stream
}

#[test]
fn known_streams_are_never_asked_for_their_id() {
    let machine = rmm_sim::enter();
    let pool = of_spec("statistics(pool(cuda))");
    let mut own = ptr::null_mut();
    assert_eq!(c!(rmm_rs_stream_new(RMM_RS_STREAM_NON_BLOCKING, &raw mut own)), RMM_RS_OK);
    let theirs = CudaStream::new().expect("a stream");
    let adopted = adopt(theirs.as_raw().as_raw(), RMM_RS_STREAM_UNTIL_RELEASED);
    for handle in [
        // Of the legacy stream a pool records an event now and then.
        ptr::without_provenance_mut(2),
        c!(rmm_rs_stream_handle(own)),
        c!(rmm_rs_stream_handle(adopted)),
    ] {
        for _ in 0..8 {
            let block = allocate(&pool, handle, 4096).expect("memory");
            assert_eq!(free(&pool, handle, block, 4096), RMM_RS_OK);
        }
        let before = machine.calls();
        for _ in 0..8 {
            let block = allocate(&pool, handle, 4096).expect("memory");
            assert_eq!(free(&pool, handle, block, 4096), RMM_RS_OK);
        }
        assert_eq!(machine.calls(), before, "stream {handle:?}");
    }
    c!(rmm_rs_stream_release(own));
    c!(rmm_rs_stream_release(adopted));
}

#[test]
fn an_unknown_stream_is_asked_for_its_id_at_each_call() {
    let machine = rmm_sim::enter();
    let pool = of_spec("pool(cuda)");
    let theirs = CudaStream::new().expect("a stream");
    let handle = theirs.as_raw().as_raw();
    let pairs = |pairs: u64| {
        let before = (machine.calls(), calls_of(&machine, "cuStreamGetId"));
        for _ in 0..pairs {
            let block = allocate(&pool, handle, 4096).expect("memory");
            assert_eq!(free(&pool, handle, block, 4096), RMM_RS_OK);
        }
        (machine.calls() - before.0, calls_of(&machine, "cuStreamGetId") - before.1)
    };
    pairs(4);
    assert_eq!(pairs(8), (16, 16), "two calls a pair, for the id");
    // The policy of the whole stack changes.
    let status = c!(rmm_rs_pool_stream_policy(pool.0, RMM_RS_STREAM_POLICY_KEPT));
    assert_eq!(status, RMM_RS_OK);
    pairs(4);
    assert_eq!(pairs(8).0, 0, "nothing is asked about a stream that is kept");
    assert_eq!(c!(rmm_rs_stream_forget(handle)), RMM_RS_OK);
}

#[test]
fn a_handle_that_comes_back_is_another_stream() {
    const STREAMS: usize = 1000;
    let machine = rmm_sim::enter();
    for policy in [RMM_RS_STREAM_POLICY_CHECKED, RMM_RS_STREAM_POLICY_KEPT] {
        let pool = of_spec("pool(cuda)");
        assert_eq!(c!(rmm_rs_pool_stream_policy(pool.0, policy)), RMM_RS_OK);
        let mut handles = std::collections::BTreeSet::new();
        for round in 0..STREAMS {
            let theirs = CudaStream::new().expect("a stream");
            let handle = theirs.as_raw().as_raw();
            handles.insert(handle.addr());
            let block = allocate(&pool, handle, 4096).expect("memory");
            assert_eq!(free(&pool, handle, block, 4096), RMM_RS_OK);
            if round % 2 == 0 {
                theirs.synchronize().expect("the driver works");
            }
            if policy == RMM_RS_STREAM_POLICY_KEPT {
                assert_eq!(c!(rmm_rs_stream_forget(handle)), RMM_RS_OK);
            }
        }
        assert!(handles.len() < STREAMS / 2, "{} handles: the test wants reuse", handles.len());
        let mut reserved = 0;
        let status = c!(rmm_rs_pool_reserved_bytes(pool.0, &raw mut reserved));
        assert_eq!(status, RMM_RS_OK);
        assert!(reserved <= 16 << 20, "{reserved} bytes for blocks of 4 KiB");
    }
    assert!(machine.violations().is_empty(), "{:?}", machine.violations());
}

#[test]
fn a_stream_is_known_until_it_is_released_as_often_as_it_was_adopted() {
    let machine = rmm_sim::enter();
    let pool = of_spec("pool(cuda)");
    let theirs = CudaStream::new().expect("a stream");
    let handle = theirs.as_raw().as_raw();
    let twice = [(); 2].map(|()| adopt(handle, RMM_RS_STREAM_UNTIL_RELEASED));
    let ids = || {
        let block = allocate(&pool, handle, 256).expect("memory");
        let before = calls_of(&machine, "cuStreamGetId");
        assert_eq!(free(&pool, handle, block, 256), RMM_RS_OK);
        calls_of(&machine, "cuStreamGetId") - before
    };
    assert_eq!(ids(), 0);
    let [first, second] = twice;
    c!(rmm_rs_stream_release(first));
    assert_eq!(ids(), 0);
    c!(rmm_rs_stream_release(second));
    assert_ne!(ids(), 0, "its end is unknown again");

    let unknown = adopt(handle, RMM_RS_STREAM_UNKNOWN);
    assert_ne!(ids(), 0);
    c!(rmm_rs_stream_release(unknown));
    let mut stream = ptr::null_mut();
    assert_eq!(c!(rmm_rs_stream_adopt(handle, 77, &raw mut stream)), 3);
    assert_eq!(c!(rmm_rs_stream_new(77, &raw mut stream)), 3);
}

#[test]
fn a_release_leaves_a_stream_that_a_resource_keeps() {
    let machine = rmm_sim::enter();
    let pool = of_spec("pool(cuda)");
    let status = c!(rmm_rs_pool_stream_policy(pool.0, RMM_RS_STREAM_POLICY_KEPT));
    assert_eq!(status, RMM_RS_OK);
    let theirs = CudaStream::new().expect("a stream");
    let handle = theirs.as_raw().as_raw();
    let pair = || {
        let block = allocate(&pool, handle, 4096).expect("memory");
        assert_eq!(free(&pool, handle, block, 4096), RMM_RS_OK);
        block
    };
    let first = pair();
    c!(rmm_rs_stream_release(adopt(handle, RMM_RS_STREAM_UNTIL_RELEASED)));
    let calls = machine.calls();
    assert_eq!(pair(), first);
    assert_eq!(machine.calls(), calls, "it is kept until it is forgotten");
    assert_eq!(c!(rmm_rs_stream_forget(handle)), RMM_RS_OK);
    pair();
    assert_ne!(machine.calls(), calls, "the driver is asked whose handle it is");
    assert_eq!(c!(rmm_rs_stream_forget(handle)), RMM_RS_OK);
}

#[test]
fn a_stream_is_adopted_in_its_own_context() {
    let _machine = Machine::builder().devices(2).enter();
    let theirs = CudaStream::non_blocking().expect("a stream");
    let current = rmm_core::Device::new(1).and_then(rmm_core::Device::make_current);
    let handle = theirs.as_raw().as_raw();
    let adopted = adopt(handle, RMM_RS_STREAM_UNTIL_RELEASED);
    drop(current.expect("a device"));
    let pool = of_spec("pool(cuda, max=4MiB)");
    let block = allocate(&pool, handle, 3 << 20).expect("memory");
    assert_eq!(free(&pool, handle, block, 3 << 20), RMM_RS_OK);
    let other = adopt(
        CudaStream::non_blocking().expect("a stream").into_raw().expect("the only one").as_raw(),
        RMM_RS_STREAM_UNTIL_RELEASED,
    );
    let other_handle = c!(rmm_rs_stream_handle(other));
    // An event of the first stream is recorded for that.
    let again = allocate(&pool, other_handle, 3 << 20);
    assert_eq!(again, Ok(block), "{}", last_error());
    assert_eq!(free(&pool, other_handle, block, 3 << 20), RMM_RS_OK);
    c!(rmm_rs_stream_release(adopted));
    c!(rmm_rs_stream_release(other));
}

#[test]
fn a_thread_tells_more_streams_apart_than_its_table_has() {
    const STREAMS: usize = 200;
    let machine = rmm_sim::enter();
    let pool = of_spec("pool(cuda)");
    let streams: Vec<_> = (0..STREAMS)
        .map(|_| {
            let mut stream = ptr::null_mut();
            assert_eq!(c!(rmm_rs_stream_new(RMM_RS_STREAM_NON_BLOCKING, &raw mut stream)), 0);
            stream
        })
        .collect();
    for &stream in streams.iter().chain(&streams) {
        let handle = c!(rmm_rs_stream_handle(stream));
        let block = allocate(&pool, handle, 4096).expect("memory");
        let place = rmm_core::DevicePtr::new(block.addr() as u64);
        let known = rmm_core::sys::CuStream::from_raw(handle);
        let filled = c!(rmm_core::StreamRef::with_raw(known, |stream| {
            rmm_core::copy::fill(place, 7, 4096, stream)
        }));
        filled.and_then(|filled| filled).expect("a fill");
        assert_eq!(free(&pool, handle, block, 4096), RMM_RS_OK);
    }
    machine.assert_no_violations();
    for stream in streams {
        c!(rmm_rs_stream_release(stream));
    }
}
