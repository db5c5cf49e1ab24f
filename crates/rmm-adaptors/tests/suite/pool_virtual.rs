//! Tests of a pool over virtual memory, which grows in place: what it maps, what it unmaps, and
//! stream order meanwhile.

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use proptest::prelude::*;
use rmm_adaptors::{GrowthPolicy, PoolMemoryResource, PoolPreset};
use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{
    CudaStream, Device, DevicePtr, Error, ExtendableResource, Query, Resource, Structure,
    SynchronousResource,
};
use rmm_resources::VirtualMemoryResource;
use rmm_sim::{Machine, MachineBuilder, Schedule};

use crate::harness::{Fixture, Runner};
use crate::programs::{Op, ops};
use crate::support::{MIB, base_seed, free, keep_busy, layout, mib, stream};

const PAGE: usize = 2 * MIB;
/// The granule of programs here: blocks are at most a few pages.
const GRANULE: usize = 16 << 10;

const PRESETS: [PoolPreset; 3] =
    [PoolPreset::Throughput, PoolPreset::Compact, PoolPreset::Deterministic];

type Pool = PoolMemoryResource;

/// What a pool is over.
fn pages(pool: &Pool) -> &VirtualMemoryResource {
    pool.upstream().downcast_ref().expect("it is over virtual memory")
}

fn description(schedule: Schedule) -> MachineBuilder {
    Machine::builder().memory(64 << 20).schedule(schedule)
}

fn pool(preset: PoolPreset) -> Pool {
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    PoolMemoryResource::builder(upstream).preset(preset).build().expect("a pool")
}

fn allocate(pool: &Pool, on: &CudaStream, bytes: usize) -> DevicePtr {
    pool.allocate(on, layout(bytes)).expect("there is memory")
}

fn fixture(machine: &Machine, limit: u64, preset: PoolPreset) -> Fixture<Pool> {
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let builder = PoolMemoryResource::builder(upstream).preset(preset).maximum_size(limit);
    Fixture::in_granules(machine, builder.build().expect("a pool"), GRANULE)
}

fn run(machine: &Machine, ops: &[Op], limit: u64, preset: PoolPreset) {
    let _entered = machine.enter();
    let mut runner = Runner::sharing(machine.without_faults(|| fixture(machine, limit, preset)), 0);
    for op in ops {
        runner.step(op);
    }
    runner.finish();
    let failed = machine.failed_calls().len();
    machine.clear_faults();
    // Drained: all memory can be allocated as one block, and returned.
    if failed == 0 {
        let whole = runner.pool().maximum_size().expect("it has a limit");
        assert_eq!(whole, limit / PAGE as u64 * PAGE as u64);
        let all = Layout::from_size_align(usize::try_from(whole).expect("a small size"), 256)
            .expect("a small size");
        let block = runner.pool().allocate_sync(all).expect("all of it is free");
        // SAFETY: allocated just now with this layout, and not used.
        unsafe { runner.pool().deallocate_sync(block, all) };
        runner.pool().trim(0);
        assert_eq!(runner.pool().reserved_bytes(), 0);
    }
    drop(runner);
    machine.assert_no_violations();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_keeps_stream_order_and_leaks_nothing(
        ops in ops(150),
        schedule in 0..3,
        seed in any::<u64>(),
        granules in 128usize..2500,
        preset in 0..PRESETS.len(),
    ) {
        let schedule = match schedule {
            0 => Schedule::Lazy,
            1 => Schedule::Eager,
            _ => Schedule::Seeded(seed ^ base_seed()),
        };
        let machine = description(schedule).build();
        run(&machine, &ops, (granules * GRANULE) as u64, PRESETS[preset]);
        assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}

#[test]
fn threads_extend_one_pool() {
    for (seed, preset) in (0..24).zip(PRESETS.into_iter().cycle()) {
        let machine = description(Schedule::Seeded(seed ^ base_seed())).build();
        let entered = machine.enter();
        let fixture = fixture(&machine, mib(24), preset);
        thread::scope(|scope| {
            for number in 0..3 {
                let (machine, fixture) = (&machine, fixture.clone());
                scope.spawn(move || {
                    let _entered = machine.enter();
                    let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                    let mut runner = Runner::sharing(fixture, number);
                    for op in crate::soak::steps_of(seed, number).iter().take(400) {
                        runner.step(op);
                    }
                    runner.free_all();
                });
            }
        });
        fixture.finish();
        drop(fixture);
        machine.assert_no_violations();
        assert!(machine.leaks().is_empty(), "seed {seed}: {:?}", machine.leaks());
        drop(entered);
    }
}

#[test]
fn growth_maps_only_the_missing_pages() {
    let machine = rmm_sim::enter();
    let (pool, stream) = (pool(PoolPreset::Compact), stream());
    let first = allocate(&pool, &stream, 3 * PAGE);
    let second = allocate(&pool, &stream, 2 * PAGE);
    assert_eq!(second.0, first.0 + 3 * PAGE as u64);
    free(&pool, &stream, second, 2 * PAGE);
    // Still in the stream's free list: the request can be served by extending the last block.
    keep_busy(&machine, &stream);
    assert_eq!(allocate(&pool, &stream, 5 * PAGE), second);
    assert_eq!(pool.reserved_bytes(), 8 * PAGE as u64);
    free(&pool, &stream, second, 5 * PAGE);
    free(&pool, &stream, first, 3 * PAGE);
}

#[test]
fn pages_in_the_middle_are_unmapped_and_mapped_again() {
    let _machine = rmm_sim::enter();
    let (pool, stream) = (pool(PoolPreset::Throughput), stream());
    let blocks: Vec<DevicePtr> = (0..5).map(|_| allocate(&pool, &stream, PAGE)).collect();
    for &block in &blocks[1..4] {
        free(&pool, &stream, block, PAGE);
    }
    assert_eq!(pool.trim(0), 3 * PAGE as u64);
    assert_eq!(pages(&pool).statistics().mapped_bytes, 2 * PAGE as u64);
    assert_eq!(allocate(&pool, &stream, 3 * PAGE), blocks[1], "the gap is just right");
    free(&pool, &stream, blocks[1], 3 * PAGE);
    for block in [blocks[0], blocks[4]] {
        free(&pool, &stream, block, PAGE);
    }
    pool.trim(0);
    assert_eq!(pages(&pool).statistics().mapped_bytes, 0);
    assert_eq!(allocate(&pool, &stream, PAGE), blocks[0], "as a fresh one");
    free(&pool, &stream, blocks[0], PAGE);
}

#[test]
fn the_initial_memory_is_unmapped_page_by_page() {
    let _machine = rmm_sim::enter();
    let builder = PoolMemoryResource::builder(VirtualMemoryResource::new().unwrap());
    let (pool, stream) = (builder.initial_size((4 * PAGE) as u64).build().unwrap(), stream());
    let small = allocate(&pool, &stream, 256);
    pool.trim(0);
    assert_eq!(pool.reserved_bytes(), PAGE as u64);
    // The same for pages that a request mapped first.
    free(&pool, &stream, small, 256);
    pool.trim(0);
    let large = allocate(&pool, &stream, 4 * PAGE);
    free(&pool, &stream, large, 4 * PAGE);
    let small = allocate(&pool, &stream, 256);
    pool.trim(0);
    assert_eq!(pool.reserved_bytes(), PAGE as u64);
    free(&pool, &stream, small, 256);
}

#[test]
fn a_stream_waits_for_blocks_beside_new_pages_first() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let builder = PoolMemoryResource::builder(VirtualMemoryResource::new().unwrap());
    let pool = builder.maximum_size((2 * PAGE) as u64).build().unwrap();
    let (first, second) = (stream(), stream());
    let kept = allocate(&pool, &second, PAGE / 2);
    let other = allocate(&pool, &first, PAGE / 2);
    crate::support::write(&machine, &first, other, 1);
    free(&pool, &first, other, PAGE / 2);
    assert_eq!(allocate(&pool, &second, 3 * PAGE / 2), other);
    crate::support::write(&machine, &second, other, 2);
    let statistics = pool.statistics();
    assert_eq!((statistics.stream_waits, statistics.host_waits), (1, 0));
    free(&pool, &second, other, 3 * PAGE / 2);
    free(&pool, &second, kept, PAGE / 2);
    machine.assert_no_violations();
}

#[test]
fn memory_in_use_by_the_device_is_not_unmapped() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let (pool, stream) = (pool(PoolPreset::Compact), stream());
    let block = allocate(&pool, &stream, 4 * PAGE);
    crate::support::write(&machine, &stream, block, 7);
    free(&pool, &stream, block, 4 * PAGE);
    assert_eq!(pool.trim(0), 0);
    stream.synchronize().expect("a wait");
    assert_eq!(pool.trim(0), 4 * PAGE as u64);
    machine.assert_no_violations();
}

#[test]
fn deterministic_growth_ignores_the_device_s_progress() {
    let places = |schedule| {
        let machine = Machine::builder().schedule(schedule).enter();
        let pool = pool(PoolPreset::Deterministic);
        let streams = [stream(), stream()];
        let mut live: Vec<(DevicePtr, usize, usize)> = Vec::new();
        let (mut places, mut trimmed) = (Vec::new(), Vec::new());
        for step in 0..400_usize {
            let on = step * 7 % 5 % 2;
            keep_busy(&machine, &streams[on]);
            let bytes = (step * 37 % 11 + 1) * (PAGE / 3 / 256 * 256);
            let block = allocate(&pool, &streams[on], bytes);
            places.push(block.0);
            live.push((block, bytes, on));
            if step % 3 != 0 {
                let (block, bytes, on) = live.swap_remove(step * 13 % live.len());
                free(&pool, &streams[on], block, bytes);
            }
            if step % 100 == 99 {
                trimmed.push(pool.trim(0));
            }
        }
        for (block, bytes, on) in live {
            free(&pool, &streams[on], block, bytes);
        }
        machine.assert_no_violations();
        let base = places[0];
        let places: Vec<u64> = places.into_iter().map(|place| place.wrapping_sub(base)).collect();
        (places, trimmed)
    };
    let lazy = places(Schedule::Lazy);
    assert_eq!(lazy, places(Schedule::Eager));
    assert_eq!(lazy, places(Schedule::Seeded(base_seed())));
    assert!(lazy.1.iter().any(|&bytes| bytes > 0));
}

#[test]
fn addresses_of_another_owner_are_not_used() {
    let _machine = rmm_sim::enter();
    let (pool, stream) = (pool(PoolPreset::Compact), stream());
    let first = allocate(&pool, &stream, PAGE);
    let page = layout(PAGE);
    let theirs = DevicePtr(first.0 + PAGE as u64);
    pages(&pool).allocate_at(theirs, page).expect("free addresses");
    let second = allocate(&pool, &stream, PAGE);
    assert_eq!(second.0, theirs.0 + PAGE as u64);
    let third = allocate(&pool, &stream, PAGE);
    assert_eq!(third.0, second.0 + PAGE as u64, "there it goes on");
    for block in [first, second, third] {
        free(&pool, &stream, block, PAGE);
    }
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pool.upstream().deallocate_sync(theirs, page) };
}

/// Virtual memory that blocks before it unmaps its first block, until an allocation at the same
/// addresses has failed.
#[derive(Debug)]
struct SlowToLeave {
    upstream: VirtualMemoryResource,
    /// Notifies of the first deallocation, and receives the end of the wait.
    first: Mutex<Option<(Sender<()>, Receiver<()>)>>,
    failed: Sender<()>,
}

crate::below_a_pool::below_a_pool!([] SlowToLeave);

// SAFETY: the contract is kept by the virtual memory; calls are only delayed.
unsafe impl SynchronousResource for SlowToLeave {
    fn name(&self) -> &'static str {
        "slow to leave"
    }

    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.upstream.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        let first = self.first.lock().expect("no panic").take();
        if let Some((leaves, failures)) = first {
            leaves.send(()).expect("the test waits for it");
            failures.recv().expect("the test goes on");
        }
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.deallocate_sync(pointer, layout) };
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::default().with_extendable(self)
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor);
    }
}

// SAFETY: the contract is kept by the virtual memory; calls are only delayed.
unsafe impl ExtendableResource for SlowToLeave {
    fn page_size(&self) -> u64 {
        self.upstream.page_size()
    }

    fn allocate_at(&self, start: DevicePtr, layout: Layout) -> Result<(), Error> {
        let taken = self.upstream.allocate_at(start, layout);
        if taken.is_err() {
            // After the first deallocation, no one may be receiving.
            let _ignored = self.failed.send(());
        }
        taken
    }
}

#[test]
fn growth_waits_for_addresses_that_are_being_freed() {
    let machine = rmm_sim::enter();
    let ((leaves, leaving), (failed, failures)) = (channel(), channel());
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let first = Mutex::new(Some((leaves, failures)));
    let upstream = SlowToLeave { upstream, first, failed };
    let pool = PoolMemoryResource::builder(upstream).preset(PoolPreset::Compact);
    let (pool, stream) = (pool.build().expect("a pool"), stream());
    let allocate = || pool.allocate(&stream, layout(PAGE)).expect("there is memory");
    let free = |block| {
        // SAFETY: allocated with this layout on this stream, and not used.
        unsafe { pool.deallocate(&stream, block, layout(PAGE)) };
    };
    let blocks: Vec<DevicePtr> = (0..3).map(|_| allocate()).collect();
    free(blocks[1]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = machine.enter();
            let _current = Device::new(0).and_then(Device::make_current).expect("a device");
            assert_eq!(pool.trim(0), PAGE as u64);
        });
        leaving.recv().expect("the block is about to go");
        assert_eq!(allocate(), blocks[1], "its place is free as soon as it has gone");
    });
    let next = allocate();
    assert_eq!(next.0, blocks[2].0 + PAGE as u64, "memory is extended as before");
    blocks.into_iter().chain([next]).for_each(free);
}

/// Virtual memory that panics once it has unmapped its first block.
#[derive(Debug)]
struct PanicsOnce {
    upstream: VirtualMemoryResource,
    has_panicked: AtomicBool,
}

crate::below_a_pool::below_a_pool!([] PanicsOnce);

// SAFETY: that of the virtual memory.
unsafe impl SynchronousResource for PanicsOnce {
    fn name(&self) -> &'static str {
        "panics once"
    }

    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.upstream.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.deallocate_sync(pointer, layout) };
        assert!(self.has_panicked.swap(true, Ordering::Relaxed), "on purpose");
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::default().with_extendable(self)
    }
}

// SAFETY: as above.
unsafe impl ExtendableResource for PanicsOnce {
    fn page_size(&self) -> u64 {
        self.upstream.page_size()
    }

    fn allocate_at(&self, start: DevicePtr, layout: Layout) -> Result<(), Error> {
        self.upstream.allocate_at(start, layout)
    }
}

#[test]
fn a_panic_while_room_is_made_keeps_no_free_memory_reserved() {
    let _machine = rmm_sim::enter();
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let upstream = PanicsOnce { upstream, has_panicked: AtomicBool::new(false) };
    let pool = PoolMemoryResource::builder(upstream).preset(PoolPreset::Compact);
    let (pool, stream) = (pool.maximum_size(3 * PAGE as u64).build().expect("a pool"), stream());
    let allocate = |pages| pool.allocate(&stream, layout(pages * PAGE));
    let free = |block, pages| {
        // SAFETY: allocated with this layout on this stream, and not used.
        unsafe { pool.deallocate(&stream, block, layout(pages * PAGE)) };
    };
    let [first, second, third] = [(); 3].map(|()| allocate(1).expect("there is memory"));
    free(first, 1);
    free(third, 1);
    // It fits behind the second block: in place of the third and one page more, if the first goes.
    assert!(catch_unwind(AssertUnwindSafe(|| allocate(2))).is_err());
    free(second, 1);
    let all = allocate(3).expect("nothing else is allocated");
    free(all, 3);
}

#[test]
fn an_extent_stops_at_addresses_of_another_owner() {
    let _machine = rmm_sim::enter();
    let (failed, failures) = channel();
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let own = upstream.clone();
    let upstream = SlowToLeave { upstream, first: Mutex::default(), failed };
    let pool =
        PoolMemoryResource::builder(upstream).growth(GrowthPolicy::FixedStep((4 * PAGE) as u64));
    let (pool, stream) = (pool.build().expect("a pool"), stream());
    let allocate = |pages| pool.allocate(&stream, layout(pages * PAGE)).expect("memory");
    let free = |block, pages| {
        // SAFETY: allocated with this layout on this stream, and not used.
        unsafe { pool.deallocate(&stream, block, layout(pages * PAGE)) };
    };
    let (first, middle, last) = (allocate(1), allocate(2), allocate(1));
    let page = layout(PAGE);
    let theirs = DevicePtr(first.0 + 4 * PAGE as u64);
    own.allocate_at(theirs, page).expect("free addresses");
    let elsewhere = allocate(4);
    assert_eq!(failures.try_iter().count(), 1, "the pool has found that these are not free");
    free(middle, 2);
    stream.synchronize().expect("a stream");
    assert_eq!(pool.trim(0), 2 * PAGE as u64);
    free(last, 1);
    // The missing pages lie between two blocks, and the extent ends where addresses of another
    // owner begin.
    let block = allocate(3);
    assert_eq!(block, middle);
    assert_eq!(failures.try_iter().count(), 0, "they are not asked for again");
    for (block, pages) in [(first, 1), (block, 3), (elsewhere, 4)] {
        free(block, pages);
    }
    // SAFETY: allocated above with this layout, and not used.
    unsafe { own.deallocate_sync(theirs, page) };
}

/// The pages that blocks overlap.
fn pages_of(live: &[(DevicePtr, usize, usize)]) -> usize {
    let pages = |&(block, bytes, _): &(DevicePtr, usize, usize)| {
        let page = PAGE as u64;
        block.0 / page..(block.0 + bytes as u64).div_ceil(page)
    };
    let mut all: Vec<u64> = live.iter().flat_map(pages).collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// An allocation fails only if the pages of live blocks leave too little of the limit, or of
    /// the device.
    #[test]
    fn no_request_fails_for_which_a_placement_exists(
        steps in proptest::collection::vec((any::<bool>(), 1usize..600, any::<usize>(), 0usize..3), 1..120),
        pages in 4usize..20,
        by_limit in any::<bool>(),
        preset in 0..PRESETS.len(),
    ) {
        let memory = if by_limit { 64 * MIB } else { pages * PAGE };
        let machine = Machine::builder().memory(memory).schedule(Schedule::Lazy).build();
        let entered = machine.enter();
        let builder = PoolMemoryResource::builder(VirtualMemoryResource::new().unwrap());
        let builder = builder.preset(PRESETS[preset]).initial_size(PAGE as u64);
        let builder = if by_limit { builder.maximum_size((pages * PAGE) as u64) } else { builder };
        let pool = builder.build().unwrap();
        let streams = [stream(), stream(), stream()];
        // The first page is never unmapped, so all others are mapped one by one.
        let mut live = vec![(allocate(&pool, &streams[0], 256), 256, 0)];
        for (frees, granules, which, on) in steps {
            keep_busy(&machine, &streams[on]);
            if frees && live.len() > 1 {
                let (block, bytes, on) = live.swap_remove(1 + which % (live.len() - 1));
                free(&pool, &streams[on], block, bytes);
                continue;
            }
            let bytes = granules * GRANULE;
            match pool.allocate(&streams[on], layout(bytes)) {
                Ok(block) => live.push((block, bytes, on)),
                Err(error) => {
                    prop_assert!(error.is_out_of_memory(), "{error}");
                    let needed = pages_of(&live) * PAGE + bytes.next_multiple_of(PAGE);
                    prop_assert!(needed > pages * PAGE, "{needed} bytes would be enough: {error}");
                }
            }
        }
        for (block, bytes, on) in live {
            free(&pool, &streams[on], block, bytes);
        }
        drop((pool, streams));
        drop(entered);
        machine.assert_no_violations();
        prop_assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}

#[test]
fn a_request_above_device_memory_makes_few_driver_calls() {
    let machine = Machine::builder().memory(1 << 30).enter();
    let upstream = VirtualMemoryResource::new().expect("addresses");
    let pool = PoolMemoryResource::builder(upstream).build().expect("a pool");
    let stream = stream();
    let kept = pool.allocate(&stream, layout(MIB)).expect("a block");
    let before = machine.calls();
    for bytes in [2 << 30, 1 << 30] {
        let error = pool.allocate(&stream, layout(bytes)).expect_err("there is not so much");
        assert!(error.is_out_of_memory(), "{error}");
    }
    let asked = machine.calls() - before;
    assert!(asked < 64, "{asked} calls of the driver");
    free(&pool, &stream, kept, MIB);
    assert!(pool.allocate(&stream, layout((1 << 30) - 8 * MIB)).is_ok());
}
