//! Tests of a pool that sleeps: its memory is the device's, its addresses stay, contents come back,
//! and a step that fails is undone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use rmm_adaptors::{Contents, PoolMemoryResource, PoolPreset, SleepOptions};
use rmm_core::{
    AnySynchronousResource, CudaStream, Device, DevicePtr, Error, HostDeviceAccessible, Resource,
    SynchronousResource,
};
use rmm_resources::{CudaMemoryResource, PinnedHostMemoryResource, VirtualMemoryResource};
use rmm_sim::{Checker, Fault, Machine, MachineBuilder, Schedule};
use rmm_sys::CuResult;

use crate::harness::{Fixture, Runner};
use crate::programs::{Op, ops};
use crate::support::{MIB, base_seed, free, keep_busy, layout, mib, read, stream, write};

pub(crate) type Pool = PoolMemoryResource;

const PRESETS: [PoolPreset; 3] =
    [PoolPreset::Throughput, PoolPreset::Compact, PoolPreset::Deterministic];

pub(crate) fn description(schedule: Schedule) -> MachineBuilder {
    Machine::builder().memory(64 << 20).schedule(schedule)
}

pub(crate) fn pool() -> Pool {
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    PoolMemoryResource::builder(upstream).check_frees(false).build().expect("a pool")
}

/// Bytes of the device that are free.
fn free_memory() -> u64 {
    Device::memory_info().expect("a device").free
}

/// Lets the pool sleep once its work is done.
pub(crate) fn sleep(pool: &Pool, contents: Contents) -> Result<u64, Error> {
    // SAFETY: no test uses the pool's memory while the pool sleeps, nor reads what it discarded.
    unsafe { pool.sleep_with(SleepOptions::new(contents).wait_for_work(true)) }
}

fn allocate(pool: &Pool, on: &CudaStream, bytes: usize) -> DevicePtr {
    pool.allocate(on, layout(bytes)).expect("there is memory")
}

#[test]
fn blocks_come_back_with_their_contents() {
    let machine = description(Schedule::Lazy).enter();
    let (pool, stream) = (pool(), stream());
    let before = free_memory();
    // Of odd sizes, with a hole, and one that was never written.
    let blocks =
        [1000, 3 * MIB + 8, 5000, 7 * MIB].map(|size| (allocate(&pool, &stream, size), size));
    let tag = |number: usize| 0xABCD_0000 + number as u64;
    for (number, &(block, _)) in blocks.iter().enumerate().skip(1) {
        write(&machine, &stream, block, tag(number));
    }
    free(&pool, &stream, blocks[2].0, blocks[2].1);
    let held = pool.reserved_bytes();
    assert_eq!(sleep(&pool, Contents::ToHost).expect("it falls asleep"), held);
    assert!(pool.is_asleep());
    assert_eq!((free_memory(), pool.statistics().asleep_bytes), (before, held));
    assert_eq!(pool.wake().expect("it wakes up"), held);
    assert_eq!((pool.is_asleep(), pool.statistics().asleep_bytes), (false, 0));
    assert_eq!(free_memory(), before - held);
    for number in [1, 3] {
        assert_eq!(read(&machine, blocks[number].0), tag(number));
    }
    assert_eq!(pool.wake().expect("nothing is to be done"), 0);
    for number in [0, 1, 3] {
        free(&pool, &stream, blocks[number].0, blocks[number].1);
    }
    drop((pool, stream));
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn discarded_contents_cost_no_copy() {
    let machine = description(Schedule::Lazy).enter();
    let (pool, stream) = (pool(), stream());
    let before = free_memory();
    let block = allocate(&pool, &stream, 20 * MIB);
    write(&machine, &stream, block, 7);
    sleep(&pool, Contents::Discard).expect("it falls asleep");
    assert_eq!(free_memory(), before);
    pool.wake().expect("it wakes up");
    let calls = machine.call_counts();
    assert!(!calls.iter().any(|(name, _)| name.starts_with("cuMemcpy")), "{calls:?}");
    write(&machine, &stream, block, 8);
    stream.synchronize().expect("it is done");
    assert_eq!(read(&machine, block), 8);
    free(&pool, &stream, block, 20 * MIB);
    machine.assert_no_violations();
}

#[test]
fn a_pool_of_less_than_a_page_sleeps() {
    let machine = description(Schedule::Lazy).enter();
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let pool = PoolMemoryResource::builder(upstream).initial_size(mib(1)).build().expect("a pool");
    let stream = stream();
    let block = allocate(&pool, &stream, 1000);
    sleep(&pool, Contents::ToHost).expect("it falls asleep");
    pool.wake().expect("it wakes up");
    free(&pool, &stream, block, 1000);
    machine.assert_no_violations();
}

#[test]
fn no_address_is_handed_out_while_the_pool_sleeps() {
    let machine = description(Schedule::Eager).enter();
    let (pool, stream) = (pool(), stream());
    let sizes = [1000, 64 << 10, 2 * MIB];
    // All paths are warm: the thread's cache, and the heap's lists.
    for _ in 0..20 {
        for size in sizes {
            let block = allocate(&pool, &stream, size);
            free(&pool, &stream, block, size);
        }
    }
    let kept = sizes.map(|size| allocate(&pool, &stream, size));
    for _ in 0..4 {
        let block = allocate(&pool, &stream, sizes[0]);
        free(&pool, &stream, block, sizes[0]);
    }
    assert!(pool.statistics().cached_bytes > 0, "the thread has a cache");
    sleep(&pool, Contents::Discard).expect("it falls asleep");
    let refused = || {
        for size in sizes {
            let error = pool.allocate(&stream, layout(size)).expect_err("it sleeps");
            assert!(error.is_not_ready(), "{error}");
            let error = pool.allocate_sync(layout(size)).expect_err("it sleeps");
            assert!(error.is_not_ready(), "{error}");
        }
    };
    refused();
    // What is freed meanwhile is in no cache.
    for (block, size) in kept.into_iter().zip(sizes) {
        free(&pool, &stream, block, size);
    }
    refused();
    assert_eq!((pool.statistics().live_bytes, pool.statistics().cached_bytes), (0, 0));
    assert_eq!((pool.trim(0), pool.release_unused()), (0, 0));
    pool.wake().expect("it wakes up");
    for size in sizes {
        let block = allocate(&pool, &stream, size);
        write(&machine, &stream, block, 1);
        free(&pool, &stream, block, size);
    }
    assert!(pool.statistics().cached_bytes > 0, "caches are used again");
    machine.assert_no_violations();
}

#[test]
fn pending_work_is_refused_or_waited_for() {
    let machine = description(Schedule::Lazy).enter();
    let (pool, stream) = (pool(), stream());
    let block = allocate(&pool, &stream, 2 * MIB);
    free(&pool, &stream, block, 2 * MIB);
    keep_busy(&machine, &stream);
    // SAFETY: no work uses the pool's memory.
    let error = unsafe { pool.sleep(Contents::Discard) }.expect_err("work is pending");
    assert!(error.is_not_ready() && error.to_string().contains("pending"), "{error}");
    assert!(!pool.is_asleep());
    sleep(&pool, Contents::Discard).expect("it waits");
    let error = sleep(&pool, Contents::Discard).expect_err("it sleeps already");
    assert!(error.is_not_ready() && error.to_string().contains("asleep"), "{error}");
    pool.wake().expect("it wakes up");
    // SAFETY: no work uses the pool's memory.
    unsafe { pool.sleep(Contents::Discard) }.expect("all work is done");
    machine.assert_no_violations();
}

#[test]
fn other_upstreams_are_refused() {
    let _machine = description(Schedule::Eager).enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    // SAFETY: no work uses the pool's memory.
    let error = unsafe { pool.sleep(Contents::Discard) }.expect_err("it keeps no addresses");
    assert!(error.is_unsupported() && error.to_string().contains("VirtualMemory"), "{error}");
    assert!(!pool.is_asleep());
}

#[test]
fn a_pool_that_sleeps_can_be_dropped() {
    for contents in [Contents::Discard, Contents::ToHost] {
        let machine = description(Schedule::Lazy).enter();
        let (pool, stream) = (pool(), stream());
        let [first, second] = [3 * MIB, 1000].map(|size| (allocate(&pool, &stream, size), size));
        write(&machine, &stream, first.0, 1);
        sleep(&pool, contents).expect("it falls asleep");
        free(&pool, &stream, first.0, first.1);
        free(&pool, &stream, second.0, second.1);
        drop((pool, stream));
        machine.assert_no_violations();
        assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}

#[test]
fn addresses_of_a_sleeping_pool_go_to_no_other() {
    let machine = description(Schedule::Eager).enter();
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let pool = PoolMemoryResource::builder(upstream.clone()).build().expect("a pool");
    let block = pool.allocate_sync(layout(4 * MIB)).expect("there is memory");
    // SAFETY: no work uses the block.
    unsafe { pool.sleep(Contents::Discard) }.expect("it falls asleep");
    let other = upstream.allocate_sync(layout(2 * MIB)).expect("there is memory");
    assert!(!(block.0..block.0 + mib(4)).contains(&other.0));
    pool.wake().expect("its addresses are free");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { upstream.deallocate_sync(other, layout(2 * MIB)) };
    // SAFETY: as above.
    unsafe { pool.deallocate_sync(block, layout(4 * MIB)) };
    drop((pool, upstream));
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn a_pool_that_lacks_memory_goes_on_sleeping() {
    let machine = description(Schedule::Lazy).enter();
    let (pool, stream) = (pool(), stream());
    let block = allocate(&pool, &stream, 20 * MIB);
    write(&machine, &stream, block, 42);
    sleep(&pool, Contents::ToHost).expect("it falls asleep");
    let others = CudaMemoryResource::new();
    let taken = others.allocate_sync(layout(50 * MIB)).expect("the memory is free");
    for _ in 0..3 {
        let free_before = free_memory();
        let error = pool.wake().expect_err("another has the memory");
        assert!(error.is_out_of_memory(), "{error}");
        assert!(pool.is_asleep());
        assert_eq!(free_memory(), free_before, "nothing stays mapped");
    }
    // SAFETY: allocated above with this layout, and not used.
    unsafe { others.deallocate_sync(taken, layout(50 * MIB)) };
    pool.wake().expect("there is memory again");
    assert_eq!(read(&machine, block), 42);
    free(&pool, &stream, block, 20 * MIB);
    drop((pool, stream));
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn copies_are_reported_and_go_to_memory_of_the_program() {
    let machine = Machine::builder().memory(256 << 20).schedule(Schedule::Lazy).enter();
    let pinned = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(
        PinnedHostMemoryResource::new(),
    );
    let pinned = pinned.initial_size(mib(200)).maximum_size(mib(200)).build().expect("host memory");
    let (pool, stream) = (pool(), stream());
    let block = allocate(&pool, &stream, 150 * MIB);
    let ends = [block, DevicePtr(block.0 + mib(64)), DevicePtr(block.0 + mib(149))];
    for (number, &end) in ends.iter().enumerate() {
        write(&machine, &stream, end, 1 + number as u64);
    }
    let (mut down, mut up) = (Vec::new(), Vec::new());
    let options = SleepOptions::new(Contents::ToHost)
        .wait_for_work(true)
        .host_memory(AnySynchronousResource::new(pinned.clone()))
        .on_progress(|progress| down.push((progress.copied, progress.total)));
    // SAFETY: no work uses the block while the pool sleeps.
    unsafe { pool.sleep_with(options) }.expect("it falls asleep");
    assert!(pinned.statistics().live_bytes >= mib(150));
    pool.wake_with(|progress| up.push((progress.copied, progress.total))).expect("it wakes up");
    let steps = [64, 128, 150].map(|copied| (mib(copied), mib(150)));
    assert_eq!((&down[..], &up[..]), (&steps[..], &steps[..]));
    assert_eq!(pinned.statistics().live_bytes, 0);
    for (number, &end) in ends.iter().enumerate() {
        assert_eq!(read(&machine, end), 1 + number as u64);
    }
    free(&pool, &stream, block, 150 * MIB);
    machine.assert_no_violations();
}

#[test]
fn a_report_that_panics_leaves_the_pool_as_it_was() {
    let machine = description(Schedule::Lazy).enter();
    let (pool, stream) = (pool(), stream());
    let block = allocate(&pool, &stream, 4 * MIB);
    write(&machine, &stream, block, 42);
    let options = SleepOptions::new(Contents::ToHost).wait_for_work(true);
    let options = options.on_progress(|_| panic!("a report"));
    // SAFETY: no work uses the block while the pool sleeps.
    let slept = catch_unwind(AssertUnwindSafe(|| unsafe { pool.sleep_with(options) }));
    assert!(slept.is_err() && !pool.is_asleep());
    assert_eq!(read(&machine, block), 42);
    sleep(&pool, Contents::ToHost).expect("it falls asleep");
    let woken = catch_unwind(AssertUnwindSafe(|| pool.wake_with(|_| panic!("a report"))));
    assert!(woken.is_err() && pool.is_asleep());
    pool.wake().expect("it wakes up");
    assert_eq!(read(&machine, block), 42);
    free(&pool, &stream, block, 4 * MIB);
    drop((pool, stream));
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

/// Whichever call fails: the pool is awake or asleep, its blocks hold what they held, and the next
/// attempt succeeds.
#[test]
fn any_call_may_fail_on_the_way() {
    for contents in [Contents::ToHost, Contents::Discard] {
        for code in [CuResult::OUT_OF_MEMORY, CuResult::UNKNOWN] {
            Checker::new().machine(description(Schedule::Lazy)).fail_each_call(code, |machine| {
                let _entered = machine.enter();
                let (pool, stream, block) = machine.without_faults(|| {
                    let (pool, stream) = (pool(), stream());
                    let block = allocate(&pool, &stream, 5 * MIB);
                    let gone = allocate(&pool, &stream, 2 * MIB);
                    write(machine, &stream, block, 42);
                    free(&pool, &stream, gone, 2 * MIB);
                    stream.synchronize().expect("no call fails yet");
                    (pool, stream, block)
                });
                let slept = sleep(&pool, contents);
                assert_eq!(slept.is_ok(), pool.is_asleep(), "{slept:?}");
                if slept.is_err() {
                    // Also with `Discard`: nothing was lost.
                    assert_eq!(machine.without_faults(|| read(machine, block)), 42);
                    sleep(&pool, contents).expect("no call fails any more");
                }
                if pool.wake().is_err() {
                    assert!(pool.is_asleep());
                    pool.wake().expect("no call fails any more");
                }
                if contents == Contents::ToHost {
                    assert_eq!(machine.without_faults(|| read(machine, block)), 42);
                }
                machine.without_faults(|| {
                    write(machine, &stream, block, 43);
                    free(&pool, &stream, block, 5 * MIB);
                    drop((pool, stream));
                });
            });
        }
    }
}

/// The driver refuses to unmap, and then to undo that: the pool sleeps, and loses nothing.
#[test]
fn a_way_back_that_fails_can_be_gone_later() {
    let machine = description(Schedule::Lazy).enter();
    let (pool, stream) = (pool(), stream());
    // Several upstream blocks.
    let blocks = [2, 4, 6].map(|size| (allocate(&pool, &stream, size * MIB), size));
    for (block, size) in blocks {
        write(&machine, &stream, block, size as u64);
    }
    for going_back in ["cuMemMap", "cuMemSetAccess"] {
        machine.fail(Fault::nth("cuMemUnmap", 2, CuResult::UNKNOWN));
        machine.fail(Fault::nth(going_back, 1, CuResult::UNKNOWN));
        let error = sleep(&pool, Contents::Discard).expect_err("a call fails");
        assert!(error.is_not_ready() && pool.is_asleep(), "{error}");
        machine.clear_faults();
        pool.wake().expect("no call fails any more");
        for (block, size) in blocks {
            assert_eq!(read(&machine, block), size as u64);
        }
    }
    for (block, size) in blocks {
        free(&pool, &stream, block, size * MIB);
    }
    drop((pool, stream));
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

const GRANULE: usize = 16 << 10;
/// Steps of a program between two sleeps.
const STEPS: usize = 3;

fn fixture(machine: &Machine, preset: PoolPreset) -> Fixture<Pool> {
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let builder = PoolMemoryResource::builder(upstream).preset(preset).maximum_size(mib(30));
    Fixture::in_granules(machine, builder.build().expect("a pool"), GRANULE)
}

/// Runs the steps, and lets the pool sleep after each few. Every block's tag is checked when it is
/// freed. Returns the cycles.
fn run_with_sleeps(machine: &Machine, ops: &[Op], preset: PoolPreset) -> u32 {
    let _entered = machine.enter();
    let before = free_memory();
    let mut runner = Runner::sharing(fixture(machine, preset), 0);
    let mut cycles = 0;
    for few in ops.chunks(STEPS) {
        for op in few {
            runner.step(op);
        }
        let held = sleep(runner.pool(), Contents::ToHost).expect("it falls asleep");
        assert_eq!(free_memory(), before, "{held} bytes went back");
        // A check of their tags would use them.
        runner.free_unchecked(cycles as usize, 2);
        runner.pool().wake().expect("it wakes up");
        cycles += 1;
    }
    runner.finish();
    drop(runner);
    machine.assert_no_violations();
    cycles
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Some thirty cycles in each program, a thousand in all.
    #[test]
    fn any_program_may_sleep(
        ops in ops(200),
        schedule in 0..3,
        seed in any::<u64>(),
        preset in 0..PRESETS.len(),
    ) {
        let schedule = match schedule {
            0 => Schedule::Lazy,
            1 => Schedule::Eager,
            _ => Schedule::Seeded(seed ^ base_seed()),
        };
        let machine = description(schedule).build();
        let cycles = run_with_sleeps(&machine, &ops, PRESETS[preset]);
        assert_eq!(cycles as usize, ops.len().div_ceil(STEPS));
        assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}

/// What its documentation says of the price.
#[test]
fn a_sleep_takes_three_calls_for_each_upstream_block() {
    let machine = description(Schedule::Eager).enter();
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let pool = PoolMemoryResource::builder(upstream).initial_size(mib(32)).build().expect("a pool");
    let blocks = pool.statistics().upstream_allocations;
    assert!(blocks > 1, "{blocks}");
    let calls = |names: &[&str]| {
        let counts = machine.call_counts();
        let of =
            |name| counts.iter().find(|(known, _)| *known == name).map_or(0, |&(_, count)| count);
        names.iter().map(|&name| of(name)).collect::<Vec<u64>>()
    };
    let more_than = |before: &[u64], now: &[u64]| {
        now.iter().zip(before).map(|(now, before)| now - before).collect::<Vec<u64>>()
    };
    let down = ["cuMemRetainAllocationHandle", "cuMemUnmap", "cuMemRelease"];
    let before = calls(&down);
    // SAFETY: no work uses the pool's memory.
    unsafe { pool.sleep(Contents::Discard) }.expect("it falls asleep");
    assert_eq!(more_than(&before, &calls(&down)), [blocks; 3]);
    let up = ["cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemRelease"];
    let before = calls(&up);
    pool.wake().expect("it wakes up");
    assert_eq!(more_than(&before, &calls(&up)), [blocks; 4]);
}

#[test]
fn contents_are_read_while_the_pool_sleeps() {
    let machine = description(Schedule::Lazy).enter();
    let (pool, stream) = (pool(), stream());
    assert!(pool.can_sleep());
    let blocks = [1000, 3 * MIB].map(|size| allocate(&pool, &stream, size));
    for (block, tag) in blocks.into_iter().zip([7_u64, 8]) {
        write(&machine, &stream, block, tag);
    }
    let mut out = [0; 8];
    assert!(pool.read_asleep(blocks[0], &mut out).expect_err("it is awake").is_not_ready());
    sleep(&pool, Contents::ToHost).expect("it falls asleep");
    for (block, tag) in blocks.into_iter().zip([7_u64, 8]) {
        pool.read_asleep(block, &mut out).expect("it was kept");
        assert_eq!(u64::from_le_bytes(out), tag);
    }
    let mut inside = [0; 4];
    pool.read_asleep(DevicePtr(blocks[1].0 + 4), &mut inside).expect("it was kept");
    assert_eq!(inside, [0; 4]);
    let mut beyond = vec![0; 8 * MIB];
    for wrong in [blocks[1], DevicePtr(1), DevicePtr(blocks[1].0 + (1 << 40))] {
        let error = pool.read_asleep(wrong, &mut beyond).expect_err("it was not kept");
        assert_eq!(error.kind(), rmm_core::ErrorKind::InvalidArgument);
    }
    pool.wake().expect("it wakes up");
    sleep(&pool, Contents::Discard).expect("it falls asleep");
    assert!(pool.read_asleep(blocks[0], &mut out).is_err(), "nothing was kept");
    pool.wake().expect("it wakes up");
    for (block, size) in blocks.into_iter().zip([1000, 3 * MIB]) {
        free(&pool, &stream, block, size);
    }
    let over_cuda = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    assert!(!over_cuda.can_sleep());
    drop((pool, stream, over_cuda));
    machine.assert_no_violations();
}
