//! Tests of dropping a pool: which memory is returned, and which a block that was never freed
//! keeps.

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmm_adaptors::{GrowthPolicy, PoolMemoryResource};
use rmm_core::{
    Device, DevicePtr, Error, ExtendableResource, Resource, Structure, SynchronousResource,
};
use rmm_resources::{PinnedHostMemoryResource, VirtualMemoryResource};
use rmm_sim::{Fault, Kernel, LeakKind, Machine, Schedule};
use rmm_sys::CuResult;

use crate::fixtures::pool;
use crate::own_process;
use crate::support::{MIB, free, layout, stream, write};

fn allocations_left(machine: &Machine) -> usize {
    machine.leaks().iter().filter(|leak| leak.kind == LeakKind::Allocation).count()
}

#[test]
fn an_unfreed_block_keeps_its_upstream_block_only() {
    let (machine, _entered, pool, [user]) = pool(|builder| builder.growth(GrowthPolicy::Exact));
    let [left, freed] = [0, 1].map(|_| pool.allocate(&user, layout(4 * MIB)).unwrap());
    for block in [left, freed] {
        write(&machine, &user, block, 1);
    }
    free(&pool, &user, freed, 4 * MIB);
    drop(pool);
    assert_eq!(machine.memory_in_use(0), 4 * MIB);
    machine.run_all();
    machine.assert_no_violations();
}

#[test]
fn an_unfreed_block_in_use_by_a_peer_keeps_its_memory() {
    let machine = Machine::builder().devices(2).memory(64 * MIB).schedule(Schedule::Timed).enter();
    let pool = PoolMemoryResource::builder(PinnedHostMemoryResource::new()).build().unwrap();
    let block = pool.allocate_sync(layout(4096)).unwrap();
    let second = Device::new(1).and_then(Device::make_current).unwrap();
    let user = stream();
    let kernel = Kernel::new("slow", |_| ()).writes(block, 4096).lasts(Duration::from_secs(1000));
    // SAFETY: no part of the program reads or writes the memory.
    unsafe { machine.launch_on_shared(user.as_raw(), kernel) }.unwrap();
    drop(second);
    drop(pool);
    user.synchronize().unwrap();
    machine.assert_no_violations();
}

#[test]
fn a_wait_that_fails_once_is_tried_again() {
    let (machine, _entered, pool, [user]) = pool(|builder| builder);
    let block = pool.allocate(&user, layout(256)).unwrap();
    write(&machine, &user, block, 1);
    free(&pool, &user, block, 256);
    machine.fail(Fault::nth("cuCtxSynchronize", 1, CuResult::UNKNOWN));
    drop(pool);
    assert_eq!(allocations_left(&machine), 0);
    machine.assert_no_violations();
}

#[test]
fn a_wait_that_keeps_failing_does_not_prove_completion() {
    if own_process::has_run() {
        return;
    }
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Timed).enter();
    let pool = PoolMemoryResource::builder(PinnedHostMemoryResource::new()).build().unwrap();
    let [freed, left] = [0, 1].map(|_| stream());
    let user = |stream: &rmm_core::CudaStream| {
        let block = pool.allocate(stream, layout(4 * MIB)).unwrap();
        let kernel = Kernel::new("slow", |_| ()).writes(block, 4 * MIB);
        let kernel = kernel.lasts(Duration::from_secs(1000));
        // SAFETY: no part of the program reads or writes the memory.
        unsafe { machine.launch_on_shared(stream.as_raw(), kernel) }.unwrap();
        block
    };
    let (block, _never_freed) = (user(&freed), user(&left));
    free(&pool, &freed, block, 4 * MIB);
    machine.fail(Fault::from_nth("cuCtxSynchronize", 1, CuResult::LAUNCH_FAILED));
    drop(pool);
    machine.clear_faults();
    left.synchronize().unwrap();
    machine.assert_no_violations();
    // The wait on the stream that freed it was possible.
    assert_eq!(allocations_left(&machine), 1);
}

#[test]
fn dropping_a_pool_waits_for_the_last_frees() {
    if own_process::has_run() {
        return;
    }
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Timed).enter();
    // Its frees wait for nothing by themselves.
    let memory = VirtualMemoryResource::new().unwrap();
    let pool = PoolMemoryResource::builder(memory).maximum_size(8 * MIB as u64).build().unwrap();
    let [user, other] = [(); 2].map(|()| stream());
    let [first, last] = [0, 1].map(|_| pool.allocate(&user, layout(4 * MIB)).unwrap());
    let work_and_free = |block, seconds| {
        let kernel = Kernel::new("slow", |_| ()).writes(block, 4 * MIB);
        let kernel = kernel.lasts(Duration::from_secs(seconds));
        // SAFETY: no part of the program reads or writes the memory.
        unsafe { machine.launch_on_shared(user.as_raw(), kernel) }.unwrap();
        free(&pool, &user, block, 4 * MIB);
    };
    work_and_free(first, 1);
    // Another stream takes the block, for which the pool records an event; the last free gets its
    // own when the pool ends.
    let taken = pool.allocate(&other, layout(4 * MIB)).unwrap();
    free(&pool, &other, taken, 4 * MIB);
    work_and_free(last, 1000);
    machine.fail(Fault::from_nth("cuCtxSynchronize", 1, CuResult::LAUNCH_FAILED));
    drop(pool);
    machine.clear_faults();
    machine.assert_no_violations();
    assert_eq!(allocations_left(&machine), 0);
}

/// Virtual memory in which one call panics.
#[derive(Clone, Debug)]
struct Panicking {
    memory: VirtualMemoryResource,
    /// Which call panics, counted from 1; 0 is none.
    free: Arc<AtomicUsize>,
    extend: Arc<AtomicUsize>,
}

impl Panicking {
    fn new() -> Self {
        let memory = VirtualMemoryResource::new().expect("virtual memory");
        Self { memory, free: Arc::default(), extend: Arc::default() }
    }

    fn count_down(counter: &AtomicUsize) {
        let is_set = counter.load(Ordering::Relaxed) > 0;
        let is_due = is_set && counter.fetch_sub(1, Ordering::Relaxed) == 1;
        assert!(!is_due, "upstream panics");
    }
}

crate::below_a_pool::below_a_pool!([] Panicking);

// SAFETY: every call goes to virtual memory, which keeps the contract, or panics before it.
unsafe impl SynchronousResource for Panicking {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.memory.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        Self::count_down(&self.free);
        // SAFETY: the caller's contract is the same.
        unsafe { self.memory.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "panicking"
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::default().with_extendable(self)
    }
}

// SAFETY: every call goes to virtual memory, which keeps the contract, or panics before it.
unsafe impl ExtendableResource for Panicking {
    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn allocate_at(&self, address: DevicePtr, layout: Layout) -> Result<(), Error> {
        Self::count_down(&self.extend);
        self.memory.allocate_at(address, layout)
    }
}

const PAGE: usize = 2 * MIB;

fn panics(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

#[test]
fn a_panic_of_one_upstream_free_does_not_stop_the_others() {
    let machine = Machine::builder().memory(64 * MIB).enter();
    let upstream = Panicking::new();
    let builder = PoolMemoryResource::builder(upstream.clone()).growth(GrowthPolicy::Exact);
    let pool = builder.build().unwrap();
    let fill = || {
        let blocks = [0; 4].map(|_| pool.allocate_sync(layout(PAGE)).expect("memory"));
        for block in blocks {
            // SAFETY: allocated above with this layout, and never used.
            unsafe { pool.deallocate_sync(block, layout(PAGE)) };
        }
    };
    fill();
    upstream.free.store(1, Ordering::Relaxed);
    assert!(panics(|| _ = pool.trim(0)));
    assert_eq!((pool.reserved_bytes(), machine.memory_in_use(0)), (0, PAGE), "the one is lost");
    fill();
    upstream.free.store(2, Ordering::Relaxed);
    assert!(!panics(|| drop(pool)), "a drop does not panic");
    assert_eq!(machine.memory_in_use(0), 2 * PAGE);
}

#[test]
fn a_panic_of_upstream_during_growth_leaks_nothing() {
    let machine = Machine::builder().memory(64 * MIB).enter();
    let upstream = Panicking::new();
    let builder = PoolMemoryResource::builder(upstream.clone()).growth(GrowthPolicy::Exact);
    let pool = builder.build().unwrap();
    let first = pool.allocate_sync(layout(PAGE)).unwrap();
    for nth in 1..=3 {
        upstream.extend.store(nth, Ordering::Relaxed);
        assert!(panics(|| drop(pool.allocate_sync(layout(4 * PAGE)))), "call {nth}");
        assert_eq!(machine.memory_in_use(0), PAGE, "call {nth}");
    }
    // The reserved range is free again: the next block follows the first.
    let next = pool.allocate_sync(layout(4 * PAGE)).unwrap();
    assert_eq!(next.0 - first.0, PAGE as u64);
    for (block, bytes) in [(first, PAGE), (next, 4 * PAGE)] {
        // SAFETY: allocated above with this layout, and never used.
        unsafe { pool.deallocate_sync(block, layout(bytes)) };
    }
    drop(pool);
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn streams_on_which_upstream_panicked_keep_no_slot() {
    let _machine = Machine::builder().memory(64 * MIB).enter();
    let upstream = Panicking::new();
    let builder = PoolMemoryResource::builder(upstream.clone()).growth(GrowthPolicy::Exact);
    let pool = builder.initial_size(PAGE as u64).build().unwrap();
    let panic_on_new_streams = |streams: usize| {
        for _ in 0..streams {
            let user = stream();
            upstream.extend.store(1, Ordering::Relaxed);
            assert!(panics(|| drop(pool.allocate(&user, layout(4 * PAGE)))));
        }
        pool.statistics().bookkeeping_bytes
    };
    let after_some = panic_on_new_streams(50);
    assert_eq!(panic_on_new_streams(200), after_some);
}
