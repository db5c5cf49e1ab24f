//! Tests of a pool whose upstream is slow, full, or panics: no other thread starves or fails
//! without need.

use std::alloc::Layout;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use rmm_adaptors::{GrowthPolicy, LimitingResourceAdaptor, PoolMemoryResource};
use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{CudaStream, DevicePtr, Error, Query, Resource, SynchronousResource};
use rmm_resources::CudaMemoryResource;

use crate::fixtures::{pool, pool_on};
use crate::support::{MIB, Pool, free, layout, mib, stream, write};
use rmm_sim::{Fault, Machine, Schedule};
use rmm_sys::CuResult;

type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Plain driver allocations, with an action that runs once in the middle of a call.
#[derive(Clone, Default)]
struct Hooked {
    on_allocate: Hook,
    on_deallocate: Hook,
    allocations: Arc<AtomicUsize>,
    /// Whether all allocations fail.
    is_full: bool,
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

fn run(hook: &Hook) {
    let hook = hook.lock().expect("no panic with the lock held").take();
    if let Some(hook) = hook {
        hook();
    }
}

crate::below_a_pool::below_a_pool!([] Hooked);

// SAFETY: every call goes to `CudaMemoryResource`, which keeps the contract.
unsafe impl SynchronousResource for Hooked {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        run(&self.on_allocate);
        if self.is_full {
            return Err(Error::out_of_memory("full").with_layout(layout));
        }
        CudaMemoryResource::new().allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        run(&self.on_deallocate);
        // SAFETY: the caller's contract is the same.
        unsafe { CudaMemoryResource::new().deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "hooked"
    }
}

fn set(hook: &Hook, run: impl FnOnce() + Send + 'static) {
    *hook.lock().expect("no panic with the lock held") = Some(Box::new(run));
}

#[test]
fn a_stream_keeps_its_list_during_an_upstream_call() {
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).enter();
    let upstream = Hooked::default();
    let pool = PoolMemoryResource::builder(upstream.clone()).build().unwrap();
    // Enough busy streams for the pool to forget idle ones when another is used.
    let others: Vec<CudaStream> = (0..31).map(|_| stream()).collect();
    for other in &others {
        let block = pool.allocate(other, layout(256)).unwrap();
        (0..4).for_each(|_| write(&machine, other, block, 1));
        free(&pool, other, block, 256);
    }
    let (waiting, newcomer) = (stream(), stream());
    let _most = pool.allocate(&waiting, layout(2 * MIB - 31 * 256)).unwrap();
    let size = 256 * 1024;
    {
        // While `waiting` is in its upstream call, a new stream allocates a block, and frees it
        // with pending work.
        let (pool, machine) = (pool.clone(), machine.clone());
        set(&upstream.on_allocate, move || {
            let newcomers = thread::spawn(move || {
                let _entered = machine.enter();
                let block = pool.allocate(&newcomer, layout(size)).expect("memory");
                write(&machine, &newcomer, block, 11);
                free(&pool, &newcomer, block, size);
            });
            newcomers.join().expect("no panic");
        });
    }
    let block = pool.allocate(&waiting, layout(size)).unwrap();
    write(&machine, &waiting, block, 22);
    waiting.synchronize().unwrap();
    machine.run_all();
    let mut found = [0; 8];
    machine.read(block, &mut found).unwrap();
    assert_eq!(u64::from_le_bytes(found), 22, "another stream's earlier work came after");
}

#[test]
fn threads_do_not_retry_a_full_upstream_for_each_other() {
    const THREADS: usize = 16;
    let machine = Machine::builder().memory(64 * MIB).enter();
    let upstream = Hooked { is_full: true, ..Hooked::default() };
    let pool = PoolMemoryResource::builder(upstream.clone()).build().unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let _entered = machine.enter();
                let error = pool.allocate(&stream(), layout(4 * MIB)).unwrap_err();
                assert!(error.is_out_of_memory());
            });
        }
    });
    // Each requests 4 MiB once in each of a few attempts.
    assert!(upstream.allocations.load(Ordering::Relaxed) <= THREADS * 5);
    assert_eq!(pool.statistics().host_waits, 0, "there was nothing to wait for");
}

/// An upstream without memory, and two threads that allocate at the same time: a call returns once
/// the other's has begun, or its request is over.
#[derive(Debug, Default)]
struct FullForTwo {
    /// How many calls have begun, and whether one of the two threads has finished.
    calls: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl FullForTwo {
    /// After this many calls there is memory: two threads that retry because of each other would
    /// never end.
    const TOO_MANY: usize = 100;
}

crate::below_a_pool::below_a_pool!([] FullForTwo);

// SAFETY: its blocks come from `CudaMemoryResource`, which keeps the contract.
unsafe impl SynchronousResource for FullForTwo {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let mut calls = self.calls.lock().expect("no panic with the lock held");
        let number = calls.0;
        calls.0 += 1;
        self.changed.notify_all();
        let is_alone = |calls: &mut (usize, bool)| calls.0 <= (number | 1) && !calls.1;
        drop(self.changed.wait_while(calls, is_alone).expect("no panic with the lock held"));
        if number < Self::TOO_MANY {
            return Err(Error::out_of_memory("full").with_layout(layout));
        }
        CudaMemoryResource::new().allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { CudaMemoryResource::new().deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "full for two"
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor);
    }
}

#[test]
fn two_threads_at_a_full_upstream_stop_retrying() {
    let machine = Machine::builder().memory(64 * MIB).enter();
    let upstream = Arc::new(FullForTwo::default());
    let pool = PoolMemoryResource::builder(Arc::clone(&upstream)).build().unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let _entered = machine.enter();
                let outcome = pool.allocate_sync(layout(4 * MIB));
                upstream.calls.lock().expect("no panic with the lock held").1 = true;
                upstream.changed.notify_all();
                assert!(outcome.unwrap_err().is_out_of_memory());
            });
        }
    });
    let (calls, _) = *upstream.calls.lock().expect("no panic");
    assert_eq!(calls, 2 * 5, "each asks, and four times again because of the other");
}

#[test]
fn a_single_thread_does_not_retry_for_its_own_call() {
    let _machine = Machine::builder().memory(64 * MIB).enter();
    let upstream = Hooked { is_full: true, ..Hooked::default() };
    let pool = PoolMemoryResource::builder(upstream.clone()).build().unwrap();
    let error = pool.allocate(&stream(), layout(4 * MIB)).unwrap_err();
    assert!(error.is_out_of_memory());
    assert_eq!(upstream.allocations.load(Ordering::Relaxed), 2, "it asks, and once more");
}

#[test]
fn a_panic_of_upstream_leaves_the_pool_usable() {
    let _machine = Machine::builder().memory(64 * MIB).enter();
    let upstream = Hooked::default();
    let pool = PoolMemoryResource::builder(upstream.clone()).maximum_size(mib(4)).build().unwrap();
    let stream = stream();
    set(&upstream.on_allocate, || panic!("upstream"));
    let allocate = std::panic::AssertUnwindSafe(|| pool.allocate(&stream, layout(4 * MIB)));
    assert!(std::panic::catch_unwind(allocate).is_err());
    let block = pool.allocate(&stream, layout(4 * MIB)).unwrap();
    free(&pool, &stream, block, 4 * MIB);
}

#[test]
fn memory_being_returned_is_awaited_before_oom() {
    let machine = Machine::builder().memory(16 * MIB).enter();
    let upstream = Hooked::default();
    let pool = PoolMemoryResource::builder(upstream.clone()).build().unwrap();
    let own = stream();
    let blocks: Vec<DevicePtr> =
        (0..8).map(|_| pool.allocate(&own, layout(2 * MIB)).unwrap()).collect();
    for block in blocks {
        free(&pool, &own, block, 2 * MIB);
    }
    own.synchronize().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    {
        let (pool, machine) = (pool.clone(), machine.clone());
        set(&upstream.on_deallocate, move || {
            // The other thread allocates now; its request ends after this call has returned, so it
            // is not waited for here.
            let other = thread::spawn(move || {
                let _entered = machine.enter();
                pool.allocate(&stream(), layout(256)).map(|_| ())
            });
            sender.send(other).expect("the test goes on");
        });
    }
    // All upstream blocks are returned for one that fits.
    let large = pool.allocate(&own, layout(12 * MIB)).unwrap();
    let other = receiver.recv().unwrap().join().unwrap();
    assert!(other.is_ok(), "{other:?}");
    free(&pool, &own, large, 12 * MIB);
}

#[test]
fn a_request_above_the_limit_costs_the_pool_nothing() {
    let (machine, _entered, pool, [busy, other]) =
        pool(|builder| builder.initial_size(mib(4)).maximum_size(mib(8)));
    let block = pool.allocate(&busy, layout(MIB)).unwrap();
    write(&machine, &busy, block, 1);
    free(&pool, &busy, block, MIB);
    let calls = machine.calls();
    assert!(pool.allocate(&other, layout(16 * MIB)).unwrap_err().is_out_of_memory());
    assert_eq!(machine.calls(), calls, "no wait and no returned memory can make it fit");
}

#[test]
fn the_initial_size_is_kept() {
    let (_machine, _entered, pool, [stream]) =
        pool_on(Machine::builder().memory(64 * MIB).build(), |builder| {
            builder.initial_size(mib(8))
        });
    let block = pool.allocate(&stream, layout(10 * MIB)).unwrap();
    assert_eq!(pool.statistics().upstream_frees, 0);
    free(&pool, &stream, block, 10 * MIB);
}

#[test]
fn the_rest_of_a_coalesced_block_can_be_returned() {
    let (machine, _entered, pool, [own, other]) = pool(|builder| builder.initial_size(mib(4)));
    let block = pool.allocate(&own, layout(MIB)).unwrap();
    (0..3).for_each(|_| write(&machine, &own, block, 1));
    free(&pool, &own, block, MIB);
    let large = pool.allocate(&other, layout(8 * MIB)).unwrap(); // asks what `own` has done, and seals it
    let fused = pool.allocate(&own, layout(3 * MIB + MIB / 2)).unwrap();
    assert_eq!(block, fused, "its own block and an idle one");
    own.synchronize().unwrap();
    free(&pool, &other, fused, 3 * MIB + MIB / 2);
    free(&pool, &other, large, 8 * MIB);
    drop(own);
    machine.run_all();
    assert_eq!(pool.trim(0), 12 << 20);
    assert_eq!(pool.reserved_bytes(), 0);
}

#[test]
fn short_lived_streams_leave_no_metadata() {
    let (machine, _entered, pool, []) = pool(|builder| builder.maximum_size(mib(2)));
    let freed = AtomicU64::new(0);
    let mut metadata = 0;
    for round in 0..200 {
        for _ in 0..2 {
            let stream = stream();
            let block = pool.allocate(&stream, layout(2 * MIB)).unwrap();
            write(&machine, &stream, block, 1);
            free(&pool, &stream, block, 2 * MIB);
            freed.fetch_add(1, Ordering::Relaxed);
        }
        machine.run_all();
        if round < 100 {
            metadata = pool.statistics().bookkeeping_bytes;
        }
    }
    let now = pool.statistics().bookkeeping_bytes;
    assert!(
        now <= metadata,
        "the metadata took {metadata} bytes after 200 streams, and {now} after 400"
    );
    assert_eq!(pool.statistics().frees, freed.into_inner());
}

#[test]
fn requests_whose_sum_overflows_fail() {
    let machine = Machine::builder().memory(64 * MIB).enter();
    let upstream = Hooked::default();
    let pool = PoolMemoryResource::builder(upstream.clone()).initial_size(mib(4)).build().unwrap();
    let most = isize::MAX as usize + 1 - 2 * MIB;
    let (sender, receiver) = std::sync::mpsc::channel();
    let (go_on, ended) = (sender.clone(), sender);
    let (after, rest) = std::sync::mpsc::channel();
    // The second request returns unused memory. Then the first, which is in its upstream call, may
    // end.
    set(&upstream.on_deallocate, move || go_on.send(None).expect("the first request waits"));
    {
        let (pool, machine) = (pool.clone(), machine.clone());
        set(&upstream.on_allocate, move || {
            thread::spawn(move || {
                let _entered = machine.enter();
                let pool = pool; // dropped before the thread leaves the machine
                let second = std::panic::AssertUnwindSafe(|| pool.allocate_sync(layout(most)));
                ended.send(Some(std::panic::catch_unwind(second))).expect("the test goes on");
            });
            let event = receiver.recv().expect("the second request");
            assert!(event.is_none(), "the second request ended before it gave anything back");
            after.send(receiver).expect("the test goes on");
        });
    }
    assert!(pool.allocate_sync(layout(most)).unwrap_err().is_out_of_memory());
    let second = rest.recv().unwrap().recv().unwrap().expect("no more memory is returned");
    assert!(second.expect("no panic").unwrap_err().is_out_of_memory());
}

#[test]
fn a_failing_device_wait_becomes_waits_for_each_stream() {
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).enter();
    let upstream = Hooked::default();
    let pool = PoolMemoryResource::builder(upstream.clone()).build().unwrap();
    let (first, second) = (stream(), stream());
    for stream in [&first, &second] {
        let block = pool.allocate(stream, layout(MIB / 2)).unwrap();
        write(&machine, stream, block, 1);
        free(&pool, stream, block, MIB / 2);
    }
    let were_idle = Arc::new(Mutex::new(None));
    {
        let (were_idle, streams) = (Arc::clone(&were_idle), [first, second]);
        set(&upstream.on_deallocate, move || {
            let idle = streams.each_ref().map(|stream| stream.is_idle().expect("a stream"));
            *were_idle.lock().expect("no panic") = Some(idle);
        });
    }
    // As while a stream of the program is captured.
    machine.fail(Fault::nth("cuCtxSynchronize", 1, CuResult::STREAM_CAPTURE_UNSUPPORTED));
    drop(pool);
    assert_eq!(*were_idle.lock().expect("no panic"), Some([true, true]));
}

#[test]
fn a_growth_step_that_fails_falls_back_to_the_request() {
    let _machine = Machine::builder().memory(64 * MIB).enter();
    let upstream = LimitingResourceAdaptor::new(CudaMemoryResource::new(), 6000);
    let pool = PoolMemoryResource::builder(upstream).build().unwrap();
    let stream = stream();
    let blocks = [1000, 4000].map(|bytes| (bytes, pool.allocate(&stream, layout(bytes)).unwrap()));
    assert_eq!(pool.reserved_bytes(), 1024 + 4096);
    for (bytes, block) in blocks {
        free(&pool, &stream, block, bytes);
    }
}

#[test]
fn an_oversized_growth_step_serves_the_request() {
    let _machine = Machine::builder().memory(64 * MIB).enter();
    let step = GrowthPolicy::FixedStep(u64::MAX / 256 * 256);
    let pool = Pool::builder(CudaMemoryResource::new()).growth(step).build().unwrap();
    let stream = stream();
    let block = pool.allocate(&stream, layout(MIB)).expect("the request alone can be served");
    free(&pool, &stream, block, MIB);
}
