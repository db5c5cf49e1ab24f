//! Tests of what a pool that sleeps has, asks for and leaves: siblings are asked when it wakes up,
//! none of its memory counts as free, and an attempt that fails keeps none.

use std::sync::Mutex;

use rmm_adaptors::{ArenaMemoryResource, Contents, PoolMemoryResource, SleepOptions};
use rmm_core::{Device, DevicePtr, RemedyAction, Resource, SynchronousResource};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
use rmm_sim::{Fault, Schedule};
use rmm_sys::CuResult;

use crate::pool_sleep::{description, pool, sleep};
use crate::support::{MIB, free, keep_busy, layout, mib, read, stream, write};

fn other() -> PoolMemoryResource {
    PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool")
}

fn free_memory() -> u64 {
    Device::memory_info().expect("a device").free
}

#[test]
fn a_pool_wakes_up_with_what_siblings_do_not_use() {
    for is_busy in [false, true] {
        let machine = description(Schedule::Lazy).enter();
        let (sleeper, on) = (pool(), stream());
        let block = sleeper.allocate(&on, layout(40 * MIB)).expect("there is memory");
        write(&machine, &on, block, 7);
        sleep(&sleeper, Contents::ToHost).expect("it falls asleep");
        let of_driver = CudaAsyncMemoryResource::new().expect("a pool of the driver");
        let pools: [Box<dyn Resource>; 3] =
            [Box::new(other()), Box::new(pool()), Box::new(of_driver)];
        for holder in pools {
            let held =
                holder.allocate(on.as_stream_ref(), layout(40 * MIB)).expect("there is memory");
            assert!(sleeper.wake().expect_err("it is in use").is_out_of_memory());
            if is_busy {
                keep_busy(&machine, &on);
            }
            // SAFETY: allocated above with this layout, and used on its stream only.
            unsafe { holder.deallocate(on.as_stream_ref(), held, layout(40 * MIB)) };
            assert_eq!(sleeper.wake().expect("siblings have it"), mib(40));
            assert_eq!(read(&machine, block), 7);
            sleep(&sleeper, Contents::ToHost).expect("it falls asleep");
        }
        sleeper.wake().expect("siblings have it");
        free(&sleeper, &on, block, 40 * MIB);
        drop((sleeper, on));
        machine.assert_no_violations();
    }
}

#[test]
fn a_pool_wakes_up_with_what_the_program_frees() {
    let machine = description(Schedule::Eager).enter();
    let (sleeper, holder) = (pool(), CudaMemoryResource::new());
    let block = sleeper.allocate_sync(layout(40 * MIB)).expect("there is memory");
    sleep(&sleeper, Contents::Discard).expect("it falls asleep");
    let held = Mutex::new(Some(holder.allocate_sync(layout(40 * MIB)).expect("there is memory")));
    let guard = sleeper.on_pressure(move |pressure| {
        assert_eq!((pressure.requested, pressure.missing), (mib(40), mib(16)));
        let Some(held) = held.lock().expect("no panic").take() else { return false };
        // SAFETY: allocated above with this layout, and not used.
        unsafe { holder.deallocate_sync(held, layout(40 * MIB)) };
        true
    });
    sleeper.wake().expect("the callback frees it");
    drop(guard);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { sleeper.deallocate_sync(block, layout(40 * MIB)) };
    drop(sleeper);
    machine.assert_no_violations();
}

#[test]
fn a_wake_that_cannot_succeed_empties_no_sibling() {
    let machine = description(Schedule::Eager).enter();
    let (sleeper, holder) = (pool(), other());
    let block = sleeper.allocate_sync(layout(40 * MIB)).expect("there is memory");
    sleep(&sleeper, Contents::Discard).expect("it falls asleep");
    let used = holder.allocate_sync(layout(30 * MIB)).expect("there is memory");
    let idle = holder.allocate_sync(layout(2 * MIB)).expect("there is memory");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { holder.deallocate_sync(idle, layout(2 * MIB)) };
    let held = holder.reserved_bytes();
    assert!(sleeper.wake().expect_err("too much is in use").is_out_of_memory());
    assert_eq!(holder.reserved_bytes(), held, "it would not have been enough");
    // SAFETY: as above.
    unsafe { holder.deallocate_sync(used, layout(30 * MIB)) };
    sleeper.wake().expect("now it is");
    // SAFETY: as above.
    unsafe { sleeper.deallocate_sync(block, layout(40 * MIB)) };
    machine.assert_no_violations();
}

/// All of the pool is free, and so is all of the suballocators above it.
#[test]
fn memory_that_sleeps_is_nothing_to_trim() {
    let machine = description(Schedule::Eager).enter();
    let (sleeper, asker) = (pool(), other());
    let above = PoolMemoryResource::builder(sleeper.clone()).initial_size(mib(8)).build();
    let arena = ArenaMemoryResource::builder(sleeper.clone()).arena_size(mib(8)).build();
    let idle = sleeper.allocate_sync(layout(16 * MIB)).expect("there is memory");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { sleeper.deallocate_sync(idle, layout(16 * MIB)) };
    sleep(&sleeper, Contents::Discard).expect("it falls asleep");
    let most = asker.allocate_sync(layout(60 * MIB)).expect("there is memory");
    let error = asker.allocate_sync(layout(16 * MIB)).expect_err("the device is full");
    let trims = |action| matches!(action, RemedyAction::TrimSibling { .. });
    let advice: Vec<_> = error.remedies().iter().filter(|it| trims(it.action)).collect();
    assert!(advice.is_empty(), "{advice:?}");
    assert_eq!(sleeper.trim(0), 0);
    // SAFETY: as above.
    unsafe { asker.deallocate_sync(most, layout(60 * MIB)) };
    sleeper.wake().expect("there is memory");
    drop((above, arena, sleeper, asker));
    machine.assert_no_violations();
}

#[test]
fn only_what_is_in_use_is_copied() {
    let machine = description(Schedule::Lazy).enter();
    let (sleeper, on) = (pool(), stream());
    let block = sleeper.allocate(&on, layout(2 * MIB)).expect("there is memory");
    let reservation = sleeper.reserve(mib(20)).expect("there is memory");
    let released = sleeper.reserve(mib(4)).expect("there is memory");
    released.release();
    let used_up = sleeper.reserve(mib(1)).expect("there is memory");
    let of_reserved = reservation.allocate(&on, layout(MIB)).expect("it is reserved");
    let last = used_up.allocate(&on, layout(MIB)).expect("it is reserved");
    for (tag, block) in [block, of_reserved, last].into_iter().enumerate() {
        write(&machine, &on, block, tag as u64);
    }
    let mut total = 0;
    let options = SleepOptions::new(Contents::ToHost).wait_for_work(true);
    let options = options.on_progress(|progress| total = progress.total);
    // SAFETY: no work uses the pool's memory while it sleeps.
    unsafe { sleeper.sleep_with(options) }.expect("it falls asleep");
    assert_eq!(total, mib(4), "of 2, 1 and 1");
    sleeper.wake().expect("there is memory");
    assert_eq!([block, of_reserved, last].map(|block| read(&machine, block)), [0, 1, 2]);
    assert_eq!(reservation.remaining(), mib(19));
    for (block, bytes) in [(block, 2 * MIB), (of_reserved, MIB), (last, MIB)] {
        free(&sleeper, &on, block, bytes);
    }
    drop((reservation, released, used_up, sleeper, on));
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

/// Whichever call refuses on the way, and whichever refuses to go back: once the driver works
/// again, another pool gets all memory, and afterwards the pool wakes up with its contents.
#[test]
fn a_failed_wake_keeps_no_memory() {
    let ways = ["cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyAsync", "cuMemRelease"];
    let backs = ["cuMemRetainAllocationHandle", "cuMemUnmap", "cuMemRelease"];
    for (way, back) in ways.into_iter().flat_map(|way| backs.map(|back| (way, back))) {
        let machine = description(Schedule::Lazy).enter();
        let (sleeper, asker, on) = (pool(), other(), stream());
        // Several upstream blocks.
        let blocks = [2, 4, 26].map(|size| {
            let block = sleeper.allocate(&on, layout(size * MIB)).expect("there is memory");
            write(&machine, &on, block, size as u64);
            (block, size)
        });
        sleep(&sleeper, Contents::ToHost).expect("it falls asleep");
        let before = free_memory();
        machine.fail(Fault::nth(way, 2, CuResult::UNKNOWN));
        machine.fail(Fault::from_nth(back, 1, CuResult::UNKNOWN));
        let woken = sleeper.wake();
        machine.clear_faults();
        if woken.is_err() {
            assert!(sleeper.is_asleep(), "{way}, {back}");
            let all = asker.allocate(&on, layout(64 * MIB));
            let all = all.unwrap_or_else(|error| panic!("{way}, {back}: {error}"));
            free(&asker, &on, all, 64 * MIB);
            assert_eq!(asker.trim_blocking(0), mib(64));
            assert_eq!((free_memory(), sleeper.trim(0)), (before, 0), "{way}, {back}");
            sleeper.wake().expect("no call fails any more");
        }
        assert_contents(&machine, &blocks);
        for (block, size) in blocks {
            free(&sleeper, &on, block, size * MIB);
        }
        drop((sleeper, asker, on));
        machine.assert_no_violations();
        assert!(machine.leaks().is_empty(), "{way}, {back}: {:?}", machine.leaks());
    }
}

fn assert_contents(machine: &rmm_sim::Machine, blocks: &[(DevicePtr, usize)]) {
    for &(block, size) in blocks {
        assert_eq!(read(machine, block), size as u64);
    }
}

/// What could not fall asleep and could not go back holds the only copy: a wake that fails does not
/// return it.
#[test]
fn contents_that_could_not_go_back_are_kept() {
    let machine = description(Schedule::Lazy).enter();
    let (sleeper, on) = (pool(), stream());
    let blocks = [2, 4].map(|size| {
        let block = sleeper.allocate(&on, layout(size * MIB)).expect("there is memory");
        write(&machine, &on, block, size as u64);
        (block, size)
    });
    machine.fail(Fault::nth("cuMemUnmap", 2, CuResult::UNKNOWN));
    machine.fail(Fault::from_nth("cuMemMap", 1, CuResult::UNKNOWN));
    sleep(&sleeper, Contents::Discard).expect_err("a call fails");
    for _ in 0..2 {
        sleeper.wake().expect_err("the way back fails");
        assert_eq!((sleeper.is_asleep(), sleeper.trim(0)), (true, 0));
    }
    machine.clear_faults();
    sleeper.wake().expect("no call fails any more");
    assert_contents(&machine, &blocks);
    for (block, size) in blocks {
        free(&sleeper, &on, block, size * MIB);
    }
    drop((sleeper, on));
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}
