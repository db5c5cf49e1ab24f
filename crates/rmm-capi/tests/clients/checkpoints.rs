//! Checkpoints of pools for graphs.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;

use rmm_rs::calls::base::rmm_rs_cuda_resource_new;
use rmm_rs::calls::callbacks::{Callbacks, rmm_rs_resource_from_callbacks};
use rmm_rs::calls::graphs::rmm_rs_pool_release_graph_memory;
use rmm_rs::calls::pool::{PoolOptions, RMM_RS_POOL_GRAPHS, rmm_rs_pool_new};
use rmm_rs::frameworks::client::checkpoint::CheckpointHandle;
use rmm_rs::frameworks::client::*;
use rmm_rs::handle::resource::RMM_RS_DEVICE_ACCESSIBLE;
use rmm_rs::handle::status::{RMM_RS_INVALID_ARGUMENT, RMM_RS_REFUSED};

use super::fixtures::*;

/// A pool for graphs over `cudaMalloc`.
fn graph_pool() -> Pool {
    let (mut cuda, mut pool) = (ptr::null(), ptr::null());
    ok(c!(rmm_rs_cuda_resource_new(&raw mut cuda)));
    let cuda = Pool(cuda);
    let options = PoolOptions {
        size: size_of::<PoolOptions>(),
        initial_size: 0,
        maximum_size: 0,
        soft_maximum_size: 0,
        preset: 0,
        stream_policy: 0,
        budget: 0,
        flags: RMM_RS_POOL_GRAPHS,
        budget_fraction: 0.0,
        budget_bytes: 0,
        release_above: 0,
        release_after_ms: 0,
        segment_size: 0,
    };
    ok(c!(rmm_rs_pool_new(cuda.0, &raw const options, &raw mut pool)));
    Pool(pool)
}

struct Checkpoint(*const CheckpointHandle);

impl Drop for Checkpoint {
    fn drop(&mut self) {
        c!(rmm_rs_checkpoint_release(self.0));
    }
}

fn try_checkpoint(client: &Client, pool: &Pool) -> Result<Checkpoint, i32> {
    let mut made = ptr::dangling();
    match c!(rmm_rs_client_checkpoint(client.0, pool.0, &raw mut made)) {
        0 => Ok(Checkpoint(made)),
        status => {
            assert!(made.is_null());
            Err(status)
        }
    }
}

/// The blocks that a restore says were live, and are live.
fn restore(checkpoint: &Checkpoint, stream: &Stream) -> [Vec<(*mut c_void, usize)>; 2] {
    unsafe extern "C-unwind" fn visit(
        pointer: *mut c_void,
        bytes: usize,
        is_live: u8,
        context: *mut c_void,
    ) {
        // SAFETY: it is called with the lists below.
        let lists = unsafe { &mut *context.cast::<[Vec<(*mut c_void, usize)>; 2]>() };
        lists[usize::from(is_live)].push((pointer, bytes));
    }
    let mut lists = [const { Vec::new() }; 2];
    let context = (&raw mut lists).cast();
    ok(c!(rmm_rs_checkpoint_restore(checkpoint.0, stream.raw(), Some(visit), context)));
    for list in &mut lists {
        list.sort_unstable();
    }
    lists
}

#[test]
fn a_restore_brings_back_the_blocks_and_their_statistics() {
    let _test = Test::begin();
    let (client, pool) = (Client::of_spec("pool(cuda)"), graph_pool());
    let stream = Stream::new();
    let allocate = |bytes| {
        client
            .try_allocate_from(pool.0, stream.raw(), bytes)
            .unwrap_or_else(|_| panic!("{}", last_error()))
    };
    let beside = client.allocate(&stream, MIB);
    let [first, second] = [allocate(1000), allocate(3 * MIB)];
    let checkpoint = try_checkpoint(&client, &pool).expect("it is for graphs");
    let before = client.statistics();
    free(first);
    let third = allocate(700);
    assert_eq!(third, first, "the stream's own memory");
    let fourth = allocate(5 * MIB);
    let [was, is] = restore(&checkpoint, &stream);
    let mut had = vec![(second, 0), (third, 0), (fourth, 0)];
    had.sort_unstable();
    assert_eq!(was, had);
    let mut has = vec![(first, 1000), (second, 3 * MIB)];
    has.sort_unstable();
    assert_eq!(is, has);
    let after = client.statistics();
    let current = |statistics: &rmm_rs::frameworks::client::counts::ClientStatistics| {
        [
            statistics.allocation[0].current,
            statistics.requested_bytes[0].current,
            statistics.active_bytes[1].current,
        ]
    };
    assert_eq!(current(&after), current(&before));
    assert_eq!(find(first).map(|block| block.requested), Some(1000));
    assert!(find(fourth).is_none());
    free(first);
    free(second);
    free(beside);
    ok(c!(rmm_rs_pool_release_graph_memory(pool.0)));
}

#[test]
fn a_pending_block_refuses_a_checkpoint() {
    let _test = Test::begin();
    let (client, pool) = (Client::of_spec("pool(cuda)"), graph_pool());
    let [own, other] = [(); 2].map(|()| Stream::new());
    let block = client.try_allocate_from(pool.0, own.raw(), MIB).expect("there is memory");
    other.wait_for(&own);
    other.keep_busy(block);
    record(block, &other);
    free(block);
    assert_eq!(try_checkpoint(&client, &pool).err(), Some(RMM_RS_REFUSED));
    assert!(last_error().contains("settle"), "{}", last_error());
    client.settle();
    assert!(try_checkpoint(&client, &pool).is_ok());
    ok(c!(rmm_rs_pool_release_graph_memory(pool.0)));
}

#[test]
fn memory_after_a_restore_comes_behind_recorded_streams() {
    let _test = Test::begin();
    let (client, pool) = (Client::of_spec("pool(cuda)"), graph_pool());
    let [own, other] = [(); 2].map(|()| Stream::new());
    let empty = try_checkpoint(&client, &pool).expect("it is for graphs");
    let block = client.try_allocate_from(pool.0, own.raw(), MIB).expect("there is memory");
    other.wait_for(&own);
    other.keep_busy(block);
    record(block, &other);
    assert_eq!(restore(&empty, &own), [vec![(block, 0)], vec![]]);
    let next = client.try_allocate_from(pool.0, own.raw(), MIB).expect("there is memory");
    assert_eq!(next, block);
    // The device reports a use that nothing orders.
    own.fill(next, MIB);
    free(next);
    ok(c!(rmm_rs_pool_release_graph_memory(pool.0)));
}

#[test]
fn arguments_are_checked() {
    let _test = Test::begin();
    let (client, plain) = (Client::of_spec("pool(cuda)"), Pool::of_spec("pool(cuda)"));
    assert_eq!(try_checkpoint(&client, &plain).err(), Some(RMM_RS_REFUSED));
    assert_eq!(try_checkpoint(&client, &Pool(ptr::null())).err(), Some(RMM_RS_INVALID_ARGUMENT));
    let nothing =
        c!(rmm_rs_checkpoint_restore(ptr::null(), ptr::null_mut(), None, ptr::null_mut()));
    assert_eq!(nothing, RMM_RS_INVALID_ARGUMENT);
    c!(rmm_rs_checkpoint_release(ptr::null()));
}

/// The frees of `overlapping_frees`.
struct Frees {
    begun: usize,
    /// No free waits for another any more.
    may_end: bool,
}

static FREES: Mutex<Frees> = Mutex::new(Frees { begun: 0, may_end: false });
static CHANGED: Condvar = Condvar::new();

/// A resource whose frees overlap: each ends once another has begun.
fn overlapping_frees() -> Pool {
    unsafe extern "C-unwind" fn allocate(
        _context: *mut c_void,
        _bytes: usize,
        _alignment: usize,
        out: *mut *mut c_void,
    ) -> i32 {
        static NEXT: AtomicUsize = AtomicUsize::new(1 << 40);
        // No work uses the memory.
        let address = NEXT.fetch_add(MIB, Ordering::Relaxed);
        // SAFETY: the library calls it with a place for the address.
        unsafe { out.write(ptr::without_provenance_mut(address)) };
        0
    }
    unsafe extern "C-unwind" fn deallocate(
        _context: *mut c_void,
        _pointer: *mut c_void,
        _bytes: usize,
        _alignment: usize,
    ) -> i32 {
        let mut frees = FREES.lock().expect("no thread panics with it");
        frees.begun += 1;
        let own = frees.begun;
        CHANGED.notify_all();
        drop(CHANGED.wait_while(frees, |frees| frees.begun == own && !frees.may_end));
        0
    }
    let table = Callbacks {
        size: size_of::<Callbacks>(),
        properties: RMM_RS_DEVICE_ACCESSIBLE,
        flags: 0,
        context: ptr::null_mut(),
        allocate: None,
        deallocate: None,
        allocate_sync: Some(allocate),
        deallocate_sync: Some(deallocate),
        equal: None,
        retain: None,
        release: None,
    };
    let mut made = ptr::null();
    ok(c!(rmm_rs_resource_from_callbacks(&raw const table, &raw mut made)));
    Pool(made)
}

#[test]
fn a_checkpoint_is_taken_while_other_threads_return_blocks_all_the_time() {
    let _test = Test::begin();
    let (client, pool) = (Client::of_spec("pool(cuda)"), graph_pool());
    let (others, stream) = (overlapping_frees(), Stream::new());
    let live = client.try_allocate_from(pool.0, stream.raw(), 1000).expect("there is memory");
    let is_done = AtomicBool::new(false);
    let return_blocks = |others: &Pool| {
        let _entered = MACHINE.enter();
        let _device = device(0);
        let [own, other] = [(); 2].map(|()| Stream::new());
        while !is_done.load(Ordering::Relaxed) {
            let block = client.try_allocate_from(others.0, own.raw(), MIB).expect("an address");
            record(block, &other);
            free(block);
        }
    };
    let taken: Result<Vec<_>, _> = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| return_blocks(&others));
        }
        let frees = || FREES.lock().expect("no thread panics with it");
        drop(CHANGED.wait_while(frees(), |frees| frees.begun < 10));
        let taken = (0..20).map(|_| try_checkpoint(&client, &pool)).collect();
        is_done.store(true, Ordering::Relaxed);
        frees().may_end = true;
        CHANGED.notify_all();
        taken
    });
    let taken = taken.unwrap_or_else(|status| panic!("{status}: {}", last_error()));
    assert_eq!(restore(&taken[19], &stream), [vec![(live, 0)], vec![(live, 1000)]]);
    free(live);
    ok(c!(rmm_rs_pool_release_graph_memory(pool.0)));
}
