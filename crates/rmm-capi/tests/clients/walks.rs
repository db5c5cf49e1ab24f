//! Walks of clients' blocks and of pools.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;

use rmm_rs::calls::pool::rmm_rs_pool_reserved_bytes;
use rmm_rs::calls::pool_walk::{PoolBlockInfo, rmm_rs_pool_walk};
use rmm_rs::frameworks::client::walk::ClientBlock;
use rmm_rs::frameworks::client::{rmm_rs_client_resource, rmm_rs_client_walk};
use rmm_rs::handle::status::{RMM_RS_INVALID_ARGUMENT, RMM_RS_REFUSED};

use super::fixtures::*;

#[test]
fn a_walk_sees_allocated_and_pending_blocks_of_each_pool() {
    let _test = Test::begin();
    let (client, pool) = (Client::of_spec("pool(cuda)"), Pool::of_spec("pool(cuda)"));
    let [own, other] = [(); 2].map(|()| Stream::new());
    let plain = client.allocate(&own, 1000);
    let named = client.try_allocate_from(pool.0, own.raw(), 3 * MIB).expect("there is memory");
    let pending = client.try_allocate_from(pool.0, own.raw(), MIB).expect("there is memory");
    other.wait_for(&own);
    other.keep_busy(pending);
    record(pending, &other);
    free(pending);

    let mut expected = vec![(plain, 1000, 1024, 0), (named, 3 * MIB, 3 * MIB, 0)];
    expected.push((pending, MIB, MIB, 1));
    expected.sort_by_key(|block| block.0.addr());
    let seen = |blocks: Vec<ClientBlock>| -> Vec<_> {
        assert!(blocks.iter().all(|block| block.size == size_of::<ClientBlock>()));
        assert!(blocks.iter().all(|block| block.stream == own.raw() && block.device == 0));
        let fields =
            |block: &ClientBlock| (block.pointer, block.requested, block.bytes, block.is_pending);
        blocks.iter().map(fields).collect()
    };
    assert_eq!(seen(client.walk(ptr::null())), expected);
    let of_pool = client.walk(pool.0);
    assert!(of_pool.iter().all(|block| block.pool == pool.0));
    expected.retain(|block| block.0 != plain);
    assert_eq!(seen(of_pool), expected);
    let known = find(plain).expect("it is allocated");
    assert!(known.pool.is_null() && known.client == client.0 && known.is_recorded == 0);
    record(plain, &own);
    assert_eq!(find(plain).map(|block| block.is_recorded), Some(0), "it is its own stream");
    record(plain, &other);
    assert_eq!(find(plain).map(|block| block.is_recorded), Some(1));
    assert!(Client::of_spec("pool(cuda)").walk(ptr::null()).is_empty());
    free(plain);
    free(named);
}

#[test]
fn a_visit_may_free_what_it_sees() {
    unsafe extern "C-unwind" fn visit(block: *const ClientBlock, context: *mut c_void) {
        // SAFETY: it is called with the number below.
        let freed = unsafe { &mut *context.cast::<usize>() };
        // SAFETY: it is called with a block that is valid during the call.
        let block = unsafe { *block };
        // The resource of the blocks after it lives, too.
        free(block.pointer);
        assert!(find(block.pointer).is_none());
        *freed += 1;
    }
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let own = Stream::new();
    let pool = Pool::of_spec("pool(cuda)");
    for _ in 0..10 {
        client.try_allocate_from(pool.0, own.raw(), 5000).expect("there is memory");
    }
    drop(pool);
    let mut freed = 0_usize;
    let context = (&raw mut freed).cast();
    ok(c!(rmm_rs_client_walk(client.0, ptr::null(), Some(visit), context)));
    assert_eq!(freed, 10);
    assert_eq!(client.statistics().active[0].current, 0);
}

#[test]
fn a_walk_of_a_pool_sees_its_segments_end_to_end() {
    let _test = Test::begin();
    let pool = Pool::of_spec("pool(cuda, initial=16MiB)");
    let client = Client::new(0, pool.0);
    let own = Stream::new();
    let [freed, live] = [(); 2].map(|()| client.allocate(&own, 2 * MIB));
    own.fill(freed, 2 * MIB);
    free(freed);
    let mut blocks = Vec::<PoolBlockInfo>::new();
    ok(c!(rmm_rs_pool_walk(pool.0, Some(list), (&raw mut blocks).cast())));
    assert_eq!(blocks.iter().map(|block| block.bytes).sum::<u64>(), 16 << 20);
    for pair in blocks.windows(2) {
        assert_eq!(
            (pair[0].segment, pair[0].segment_base),
            (pair[1].segment, pair[1].segment_base)
        );
        assert_eq!(pair[0].offset + pair[0].bytes, pair[1].offset);
    }
    let at = |pointer: *mut c_void| {
        let address = |block: &&PoolBlockInfo| {
            block.segment_base.addr() as u64 + block.offset == pointer.addr() as u64
        };
        blocks.iter().find(address).expect("it is in the pool")
    };
    assert!(blocks.iter().all(|block| block.size == size_of::<PoolBlockInfo>()));
    assert_eq!((at(live).is_live, at(live).has_stream), (1, 0));
    let freed = at(freed);
    assert_eq!((freed.is_live, freed.has_stream, freed.stream), (0, 1, own.raw()));
    free(live);

    let cuda = Pool::of_spec("cuda");
    assert_eq!(c!(rmm_rs_pool_walk(cuda.0, Some(list), ptr::null_mut())), RMM_RS_REFUSED);
    assert_eq!(c!(rmm_rs_pool_walk(pool.0, None, ptr::null_mut())), RMM_RS_INVALID_ARGUMENT);
}

#[test]
fn a_client_without_a_resource_names_the_pool_that_its_requests_get() {
    let _test = Test::begin();
    let client = Client::new(1, ptr::null());
    let resource = || {
        let mut found = ptr::null();
        ok(c!(rmm_rs_client_resource(client.0, &raw mut found)));
        Pool(found)
    };
    // Asked before the first request.
    let mut reserved = 0;
    ok(c!(rmm_rs_pool_reserved_bytes(resource().0, &raw mut reserved)));
    let _device = device(1);
    let own = Stream::new();
    let block = client.allocate(&own, 3 * MIB);
    ok(c!(rmm_rs_pool_reserved_bytes(resource().0, &raw mut reserved)));
    assert!(reserved >= 3 * MIB as u64, "{reserved}");
    free(block);
    let pool = Pool::of_spec("pool(cuda)");
    let (own, mut found) = (Client::new(0, pool.0), ptr::null());
    ok(c!(rmm_rs_client_resource(own.0, &raw mut found)));
    assert_eq!(Pool(found).0, pool.0);
}
