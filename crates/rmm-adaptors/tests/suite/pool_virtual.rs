//! A pool over memory that can be extended: what it holds, what it gives back, and that nothing
//! goes wrong meanwhile.

use std::alloc::Layout;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use proptest::prelude::*;
use rmm_adaptors::{GrowthPolicy, PoolMemoryResource, PoolPreset};
use rmm_core::{
    CudaStream, Device, DevicePtr, Error, ExtendableResource, Request, Resource, SyncResource,
};
use rmm_resources::VirtualMemoryResource;
use rmm_sim::{Checker, Machine, MachineBuilder, Schedule};
use rmm_sys::CuResult;

use crate::program::{Op, ops};
use crate::short::{MIB, base_seed, free, keep_busy, layout, stream};
use crate::world::{Common, World};

const PAGE: usize = 2 * MIB;
/// What programs count in here, so that their blocks are some pages at most.
const GRANULE: usize = 16 << 10;

const PRESETS: [PoolPreset; 3] =
    [PoolPreset::Throughput, PoolPreset::Compact, PoolPreset::Deterministic];

type Pool = PoolMemoryResource<VirtualMemoryResource>;

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

fn common(machine: &Machine, limit: usize, preset: PoolPreset) -> Common<Pool> {
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let builder = PoolMemoryResource::builder(upstream).preset(preset).maximum_size(limit);
    Common::in_granules(machine, builder.build().expect("a pool"), GRANULE)
}

fn run(machine: &Machine, ops: &[Op], limit: usize, preset: PoolPreset) {
    let _entered = machine.enter();
    let mut world = World::sharing(machine.without_faults(|| common(machine, limit, preset)), 0);
    for op in ops {
        world.step(op);
    }
    world.finish();
    let failed = machine.failed_calls().len();
    machine.clear_faults();
    // As good as new: everything can be had in one piece, and given back.
    if failed == 0 {
        let all = Layout::from_size_align(limit, 256).expect("a small size");
        let block = world.pool().allocate_sync(all).expect("all of it is free");
        // SAFETY: allocated just now with this layout, and not used.
        unsafe { world.pool().deallocate_sync(block, all) };
        world.pool().trim(0);
        assert_eq!(world.pool().reserved_bytes(), 0);
    }
    drop(world);
    machine.assert_no_violations();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_keeps_the_order_and_leaves_nothing(
        ops in ops(150),
        schedule in 0..3,
        seed in any::<u64>(),
        granules in 100usize..2500,
        preset in 0..PRESETS.len(),
    ) {
        let schedule = match schedule {
            0 => Schedule::Lazy,
            1 => Schedule::Eager,
            _ => Schedule::Seeded(seed ^ base_seed()),
        };
        let machine = description(schedule).build();
        run(&machine, &ops, granules * GRANULE, PRESETS[preset]);
        assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_call_may_fail(ops in ops(40), lazy in any::<bool>(), granules in 500usize..1500, memory in any::<bool>(), preset in 0..PRESETS.len()) {
        let code = if memory { CuResult::OUT_OF_MEMORY } else { CuResult::UNKNOWN };
        let schedule = if lazy { Schedule::Lazy } else { Schedule::Eager };
        Checker::new().machine(description(schedule)).fail_each_call(code, |machine| {
            // The streams and the pool are there before.
            let limit = granules * GRANULE;
            run_with_faults(machine, &ops, limit, PRESETS[preset]);
        });
    }
}

/// As [`run`], where streams and the like cannot be had, and only what the pool does of its own
/// matters.
fn run_with_faults(machine: &Machine, ops: &[Op], limit: usize, preset: PoolPreset) {
    let entered = machine.enter();
    let mut world = machine.without_faults(|| World::sharing(common(machine, limit, preset), 0));
    for op in ops {
        world.step(op);
    }
    world.finish();
    drop(world);
    drop(entered);
}

#[test]
fn threads_extend_one_pool() {
    for (seed, preset) in (0..24).zip(PRESETS.into_iter().cycle()) {
        let machine = description(Schedule::Seeded(seed ^ base_seed())).build();
        let entered = machine.enter();
        let common = common(&machine, 24 * MIB, preset);
        thread::scope(|scope| {
            for number in 0..3 {
                let (machine, common) = (&machine, common.clone());
                scope.spawn(move || {
                    let _entered = machine.enter();
                    let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                    let mut world = World::sharing(common, number);
                    for op in crate::soak::steps_of(seed, number).iter().take(400) {
                        world.step(op);
                    }
                    world.free_all();
                });
            }
        });
        common.finish();
        drop(common);
        machine.assert_no_violations();
        assert!(machine.leaks().is_empty(), "seed {seed}: {:?}", machine.leaks());
        drop(entered);
    }
}

#[test]
fn a_request_gets_what_it_lacks_and_no_more() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let (pool, stream) = (pool(PoolPreset::Compact), stream());
    let first = allocate(&pool, &stream, 3 * PAGE);
    let second = allocate(&pool, &stream, 2 * PAGE);
    assert_eq!(second.0, first.0 + 3 * PAGE as u64);
    free(&pool, &stream, second, 2 * PAGE);
    // Still on the stream's list: the end is its to extend.
    keep_busy(&machine, &stream);
    assert_eq!(allocate(&pool, &stream, 5 * PAGE), second);
    assert_eq!(pool.reserved_bytes(), 8 * PAGE as u64);
    free(&pool, &stream, second, 5 * PAGE);
    free(&pool, &stream, first, 3 * PAGE);
}

#[test]
fn pieces_in_the_middle_go_back_and_are_filled_again() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let (pool, stream) = (pool(PoolPreset::Throughput), stream());
    let blocks: Vec<DevicePtr> = (0..5).map(|_| allocate(&pool, &stream, PAGE)).collect();
    for &block in &blocks[1..4] {
        free(&pool, &stream, block, PAGE);
    }
    assert_eq!(pool.trim(0), 3 * PAGE as u64);
    assert_eq!(pool.upstream().statistics().mapped_bytes, 2 * PAGE as u64);
    assert_eq!(allocate(&pool, &stream, 3 * PAGE), blocks[1], "the gap is just right");
    free(&pool, &stream, blocks[1], 3 * PAGE);
    for block in [blocks[0], blocks[4]] {
        free(&pool, &stream, block, PAGE);
    }
    pool.trim(0);
    assert_eq!(pool.upstream().statistics().mapped_bytes, 0);
    assert_eq!(allocate(&pool, &stream, PAGE), blocks[0], "as a fresh one");
    free(&pool, &stream, blocks[0], PAGE);
}

#[test]
fn what_was_taken_at_first_goes_back_page_by_page() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let builder = PoolMemoryResource::builder(VirtualMemoryResource::new().unwrap());
    let (pool, stream) = (builder.initial_size(4 * PAGE).build().unwrap(), stream());
    let small = allocate(&pool, &stream, 256);
    pool.trim(0);
    assert_eq!(pool.reserved_bytes(), PAGE as u64);
    // So does what a request took that was the first.
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
fn a_stream_waits_for_what_is_beside_new_pages_before_the_host_does() {
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
    let _entered = machine.enter();
    let builder = PoolMemoryResource::builder(VirtualMemoryResource::new().unwrap());
    let pool = builder.maximum_size(2 * PAGE).build().unwrap();
    let (first, second) = (stream(), stream());
    let kept = allocate(&pool, &second, PAGE / 2);
    let other = allocate(&pool, &first, PAGE / 2);
    crate::short::write(&machine, &first, other, 1);
    free(&pool, &first, other, PAGE / 2);
    assert_eq!(allocate(&pool, &second, 3 * PAGE / 2), other);
    crate::short::write(&machine, &second, other, 2);
    let statistics = pool.statistics();
    assert_eq!((statistics.stream_waits, statistics.host_waits), (1, 0));
    free(&pool, &second, other, 3 * PAGE / 2);
    free(&pool, &second, kept, PAGE / 2);
    machine.assert_no_violations();
}

#[test]
fn memory_in_use_by_the_device_does_not_go_back() {
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
    let _entered = machine.enter();
    let (pool, stream) = (pool(PoolPreset::Compact), stream());
    let block = allocate(&pool, &stream, 4 * PAGE);
    crate::short::write(&machine, &stream, block, 7);
    free(&pool, &stream, block, 4 * PAGE);
    assert_eq!(pool.trim(0), 0);
    stream.synchronize().expect("a wait");
    assert_eq!(pool.trim(0), 4 * PAGE as u64);
    machine.assert_no_violations();
}

#[test]
fn the_deterministic_preset_places_alike_whatever_the_device_does() {
    let places = |schedule| {
        let machine = Machine::builder().schedule(schedule).build();
        let _entered = machine.enter();
        let pool = pool(PoolPreset::Deterministic);
        let streams = [stream(), stream()];
        let mut live: Vec<(DevicePtr, usize, usize)> = Vec::new();
        let (mut places, mut given_back) = (Vec::new(), Vec::new());
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
                given_back.push(pool.trim(0));
            }
        }
        for (block, bytes, on) in live {
            free(&pool, &streams[on], block, bytes);
        }
        machine.assert_no_violations();
        let base = places[0];
        let places: Vec<u64> = places.into_iter().map(|place| place.wrapping_sub(base)).collect();
        (places, given_back)
    };
    let lazy = places(Schedule::Lazy);
    assert_eq!(lazy, places(Schedule::Eager));
    assert_eq!(lazy, places(Schedule::Seeded(base_seed())));
    assert!(lazy.1.iter().any(|&bytes| bytes > 0));
}

#[test]
fn addresses_of_somebody_else_are_left_alone() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let (pool, stream) = (pool(PoolPreset::Compact), stream());
    let first = allocate(&pool, &stream, PAGE);
    let page = layout(PAGE);
    let theirs = DevicePtr(first.0 + PAGE as u64);
    pool.upstream().allocate_at(theirs, page).expect("free addresses");
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

/// Virtual memory that stops before it unmaps its first block, until it was asked for the same
/// addresses in vain.
#[derive(Debug)]
struct SlowToLeave {
    upstream: VirtualMemoryResource,
    /// Who hears of the first block to go, and from whom the end of the wait is heard.
    first: Mutex<Option<(Sender<()>, Receiver<()>)>>,
    refuses: Sender<()>,
}

// SAFETY: that of the virtual memory, only later.
unsafe impl SyncResource for SlowToLeave {
    fn name(&self) -> &'static str {
        "slow to leave"
    }

    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.upstream.allocate_sync(layout)
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        let first = self.first.lock().expect("nobody panics").take();
        if let Some((leaves, refusals)) = first {
            leaves.send(()).expect("the test waits for it");
            refusals.recv().expect("the test goes on");
        }
        // SAFETY: the caller's.
        unsafe { self.upstream.deallocate_sync(pointer, layout) };
    }

    fn provide<'a>(&'a self, request: &mut Request<'a>) {
        request.extendable(self);
    }
}

// SAFETY: as above.
unsafe impl ExtendableResource for SlowToLeave {
    fn page_size(&self) -> usize {
        self.upstream.page_size()
    }

    fn allocate_at(&self, start: DevicePtr, layout: Layout) -> Result<(), Error> {
        let taken = self.upstream.allocate_at(start, layout);
        if taken.is_err() {
            // Nobody listens but to the first.
            let _unheard = self.refuses.send(());
        }
        taken
    }
}

#[test]
fn addresses_that_another_thread_gives_back_are_waited_for() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let ((leaves, leaving), (refuses, refusals)) = (channel(), channel());
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let first = Mutex::new(Some((leaves, refusals)));
    let upstream = SlowToLeave { upstream, first, refuses };
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

#[test]
fn a_place_that_ends_at_somebody_elses_addresses_is_not_widened() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let (refuses, refusals) = channel();
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let upstream = SlowToLeave { upstream, first: Mutex::default(), refuses };
    let pool = PoolMemoryResource::builder(upstream).growth(GrowthPolicy::FixedStep(4 * PAGE));
    let (pool, stream) = (pool.build().expect("a pool"), stream());
    let allocate = |pages| pool.allocate(&stream, layout(pages * PAGE)).expect("memory");
    let free = |block, pages| {
        // SAFETY: allocated with this layout on this stream, and not used.
        unsafe { pool.deallocate(&stream, block, layout(pages * PAGE)) };
    };
    let (first, middle, last) = (allocate(1), allocate(2), allocate(1));
    let page = layout(PAGE);
    let theirs = DevicePtr(first.0 + 4 * PAGE as u64);
    pool.upstream().upstream.allocate_at(theirs, page).expect("free addresses");
    let elsewhere = allocate(4);
    assert_eq!(refusals.try_iter().count(), 1, "the pool has found that these are not free");
    free(middle, 2);
    stream.synchronize().expect("a stream");
    assert_eq!(pool.trim(0), 2 * PAGE as u64);
    free(last, 1);
    // What is missing lies between two blocks, and the place ends where somebody else's addresses
    // begin.
    let block = allocate(3);
    assert_eq!(block, middle);
    assert_eq!(refusals.try_iter().count(), 0, "they are not asked for again");
    for (block, pages) in [(first, 1), (block, 3), (elsewhere, 4)] {
        free(block, pages);
    }
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pool.upstream().upstream.deallocate_sync(theirs, page) };
}

/// The pages that blocks lie in.
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

    /// A request is refused only if the pages that live blocks lie in leave too little of the
    /// limit, or of the device.
    #[test]
    fn nothing_is_refused_that_a_placement_exists_for(
        steps in proptest::collection::vec((any::<bool>(), 1usize..600, any::<usize>(), 0usize..3), 1..120),
        pages in 4usize..20,
        by_limit in any::<bool>(),
        preset in 0..PRESETS.len(),
    ) {
        let memory = if by_limit { 64 * MIB } else { pages * PAGE };
        let machine = Machine::builder().memory(memory).schedule(Schedule::Lazy).build();
        let entered = machine.enter();
        let builder = PoolMemoryResource::builder(VirtualMemoryResource::new().unwrap());
        let builder = builder.preset(PRESETS[preset]).initial_size(PAGE);
        let builder = if by_limit { builder.maximum_size(pages * PAGE) } else { builder };
        let pool = builder.build().unwrap();
        let streams = [stream(), stream(), stream()];
        // The first page is never given back, so that all others come one by one.
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
fn what_the_device_can_never_have_is_refused_without_asking_for_its_pieces() {
    let machine = Machine::builder().memory(1 << 30).build();
    let _entered = machine.enter();
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
