//! Tests that pools return idle memory to each other: no request fails while the memory could be
//! had.

use std::sync::{Arc, Barrier};
use std::thread;

use rmm_adaptors::{
    ArenaMemoryResource, FixedSizeMemoryResource, GrowthPolicy, LimitingResourceAdaptor,
    PoolMemoryResource, PoolPreset,
};
use rmm_core::{AnyResource, CaptureScope, CudaStream, DevicePtr, Resource, SynchronousResource};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaMemoryResource, PinnedHostMemoryResource, VirtualMemoryResource,
};
use rmm_sim::{Checker, Machine, Schedule};
use rmm_sys::CuResult;

use crate::own_process;
use crate::support::{MIB, Pool, free, keep_busy, layout, mib, stream};

pub(crate) fn machine(memory_mib: usize) -> Machine {
    Machine::builder().memory(memory_mib * MIB).schedule(Schedule::Lazy).build()
}

pub(crate) fn pool() -> Pool {
    Pool::builder(CudaMemoryResource::new()).build().expect("a pool")
}

pub(crate) fn pages() -> PoolMemoryResource {
    let upstream = VirtualMemoryResource::new().expect("pages");
    PoolMemoryResource::builder(upstream).build().expect("a pool")
}

/// Makes the resource hold so much idle memory.
pub(crate) fn hold(resource: &impl Resource, on: &CudaStream, bytes: usize) {
    let block = resource.allocate(on, layout(bytes)).expect("there is room");
    free(resource, on, block, bytes);
    on.synchronize().expect("it runs");
}

/// Makes the resource hold so much memory that the stream may still use.
pub(crate) fn hold_pending(
    machine: &Machine,
    resource: &impl Resource,
    on: &CudaStream,
    bytes: usize,
) {
    let block = resource.allocate(on, layout(bytes)).expect("there is room");
    keep_busy(machine, on);
    free(resource, on, block, bytes);
}

pub(crate) fn waits(machine: &Machine) -> u64 {
    let counts = machine.call_counts();
    counts.iter().filter(|(name, _)| *name == "cuCtxSynchronize").map(|&(_, calls)| calls).sum()
}

pub(crate) type Make = fn() -> AnyResource;

/// Suballocators that can hold 48 MiB.
const HOLDERS: [(&str, Make); 5] = [
    ("pool", || AnyResource::new(pool())),
    ("pool of pages", || AnyResource::new(pages())),
    ("arena", || AnyResource::new(arena(mib(48), mib(48)))),
    ("fixed-size", || {
        let blocks = FixedSizeMemoryResource::builder(CudaMemoryResource::new());
        AnyResource::new(blocks.block_size(mib(48)).blocks(1).build().expect("blocks"))
    }),
    ("cuda-async", || AnyResource::new(CudaAsyncMemoryResource::new().expect("a pool"))),
];

/// Resources that ask others, with next to nothing reserved.
pub(crate) const ASKERS: [(&str, Make); 8] = [
    ("pool", || AnyResource::new(pool())),
    ("pool of pages", || AnyResource::new(pages())),
    ("arena", || AnyResource::new(arena(mib(1), mib(64)))),
    ("pool over a pool", || {
        AnyResource::new(PoolMemoryResource::builder(pool()).build().expect("a pool"))
    }),
    ("pool over a limit", || {
        let limited = LimitingResourceAdaptor::new(CudaMemoryResource::new(), 1 << 40);
        AnyResource::new(PoolMemoryResource::builder(limited).build().expect("a pool"))
    }),
    ("cuda", || AnyResource::new(CudaMemoryResource::new())),
    ("virtual", || AnyResource::new(VirtualMemoryResource::new().expect("pages"))),
    ("cuda-async", || AnyResource::new(CudaAsyncMemoryResource::new().expect("a pool"))),
];

pub(crate) fn arena(bytes: u64, most: u64) -> ArenaMemoryResource {
    let arena = ArenaMemoryResource::builder(CudaMemoryResource::new());
    arena.arena_size(bytes).maximum_size(most).build().expect("an arena")
}

/// Has each of the askers ask while each of the holders exists.
fn every_pair(run: impl Fn(&Machine, &AnyResource, &AnyResource, &str)) {
    for (who, make_asker) in ASKERS {
        for (whom, make_holder) in HOLDERS {
            let machine = machine(64).enter();
            let (asker, holder) = (make_asker(), make_holder());
            run(&machine, &asker, &holder, &format!("{who} asks {whom}"));
            drop((asker, holder));
            machine.assert_no_violations();
            assert!(machine.leaks().is_empty(), "{who} asks {whom}: {:?}", machine.leaks());
        }
    }
}

#[test]
fn idle_memory_of_every_sibling_is_had_without_a_wait() {
    every_pair(|machine, asker, holder, who| {
        let on = stream();
        hold(holder, &on, 48 * MIB);
        // What `cuda-async` allocates synchronously needs a wait of its own.
        let before = waits(machine);
        let block = asker
            .allocate(&on, layout(48 * MIB))
            .unwrap_or_else(|error| panic!("{who}: {error:?}"));
        assert_eq!(waits(machine), before, "{who}");
        free(asker, &on, block, 48 * MIB);
    });
}

#[test]
fn pending_memory_of_every_sibling_is_had_by_a_wait() {
    every_pair(|machine, asker, holder, who| {
        let on = stream();
        hold_pending(machine, holder, &stream(), 48 * MIB);
        let block = asker
            .allocate(&on, layout(48 * MIB))
            .unwrap_or_else(|error| panic!("{who}: {error:?}"));
        free(asker, &on, block, 48 * MIB);
    });
}

#[test]
fn a_sibling_that_asks_the_driver_for_nothing_waits() {
    let machine = machine(64).enter();
    let builder = Pool::builder(CudaMemoryResource::new()).preset(PoolPreset::Deterministic);
    let (sibling, on) = (builder.build().expect("a pool"), stream());
    let askers: [AnyResource; 2] =
        [AnyResource::new(pool()), AnyResource::new(CudaMemoryResource::new())];
    for asker in askers {
        hold_pending(&machine, &sibling, &on, 48 * MIB);
        let before = waits(&machine);
        let block = asker.allocate(&on, layout(48 * MIB)).expect("the sibling has it");
        assert!(waits(&machine) > before, "only a wait shows that the memory is unused");
        free(&asker, &on, block, 48 * MIB);
        asker.trim_blocking(0);
    }
}

#[test]
fn no_sibling_waits_while_a_capture_is_announced() {
    if own_process::has_run() {
        return;
    }
    every_pair(|machine, asker, holder, who| {
        let (on, other) = (stream(), stream());
        hold_pending(machine, holder, &other, 48 * MIB);
        let scope = CaptureScope::announce();
        let before = waits(machine);
        let outcome = asker.allocate(&on, layout(48 * MIB));
        assert_eq!(waits(machine), before, "{who}");
        drop(scope);
        if let Ok(block) = outcome {
            free(asker, &on, block, 48 * MIB);
        }
    });
}

#[test]
fn what_a_sibling_uses_stays() {
    every_pair(|_machine, asker, holder, who| {
        let on = stream();
        let used = holder.allocate(&on, layout(48 * MIB)).expect("there is room");
        let error = asker.allocate(&on, layout(48 * MIB)).expect_err("it is in use");
        assert!(error.is_out_of_memory(), "{who}: {error:?}");
        free(holder, &on, used, 48 * MIB);
    });
}

#[test]
fn own_idle_memory_goes_before_that_of_siblings() {
    let _machine = machine(64).enter();
    let (asker, sibling, on) = (pool(), pool(), stream());
    // Two upstream blocks that are each too small.
    let halves = [0; 2].map(|_| asker.allocate(&on, layout(16 * MIB)).unwrap());
    for block in halves {
        free(&asker, &on, block, 16 * MIB);
    }
    hold(&sibling, &on, 24 * MIB);
    let block = asker.allocate(&on, layout(40 * MIB)).expect("its own memory is enough");
    assert_eq!(sibling.reserved_bytes(), mib(24), "it was not asked");
    free(&asker, &on, block, 40 * MIB);
}

#[test]
fn siblings_are_asked_for_idle_memory_before_the_host_waits() {
    let machine = machine(64).enter();
    let (asker, sibling) = (pool(), pool());
    let [on, busy] = [stream(), stream()];
    hold(&sibling, &on, 32 * MIB);
    hold_pending(&machine, &asker, &busy, 16 * MIB);
    let before = waits(&machine);
    let block = asker.allocate(&on, layout(40 * MIB)).expect("the sibling has it");
    assert_eq!((waits(&machine), sibling.reserved_bytes()), (before, 0));
    free(&asker, &on, block, 40 * MIB);
}

#[test]
fn siblings_return_no_more_than_is_missing() {
    let _machine = machine(64).enter();
    let (asker, on) = (pool(), stream());
    let upstream = || VirtualMemoryResource::new().unwrap();
    let siblings = [0; 2].map(|_| PoolMemoryResource::builder(upstream()).build().unwrap());
    for sibling in &siblings {
        hold(sibling, &on, 30 * MIB);
    }
    let block = asker.allocate(&on, layout(8 * MIB)).expect("they have it");
    let reserved = siblings.each_ref().map(PoolMemoryResource::reserved_bytes);
    assert_eq!(reserved, [mib(22), mib(30)], "4 MiB were free, 8 MiB were asked for");
    free(&asker, &on, block, 8 * MIB);
}

#[test]
fn a_request_for_more_than_there_is_asks_no_one() {
    let _machine = machine(64).enter();
    let (asker, sibling, on) = (pool(), pool(), stream());
    hold(&sibling, &on, 32 * MIB);
    for bytes in [65 * MIB, 1 << 40] {
        assert!(asker.allocate(&on, layout(bytes)).unwrap_err().is_out_of_memory());
    }
    assert_eq!(sibling.reserved_bytes(), mib(32));
}

#[test]
fn a_limit_of_its_own_asks_no_sibling() {
    let _machine = machine(64).enter();
    let (sibling, on) = (pool(), stream());
    hold(&sibling, &on, 32 * MIB);
    let capped = Pool::builder(CudaMemoryResource::new()).maximum_size(mib(4)).build().unwrap();
    let limited = LimitingResourceAdaptor::new(CudaMemoryResource::new(), mib(4));
    let limited = PoolMemoryResource::builder(limited).build().unwrap();
    assert!(capped.allocate(&on, layout(8 * MIB)).unwrap_err().is_out_of_memory());
    assert!(limited.allocate(&on, layout(8 * MIB)).unwrap_err().is_out_of_memory());
    assert_eq!(sibling.reserved_bytes(), mib(32), "it could not help");
}

#[test]
fn pools_over_one_limit_give_way_to_each_other() {
    let machine = machine(64).enter();
    let limit = LimitingResourceAdaptor::new(CudaMemoryResource::new(), mib(16));
    let [first, second] =
        [0; 2].map(|_| PoolMemoryResource::builder(limit.clone()).build().unwrap());
    let (beside, on) = (pool(), stream());
    hold(&beside, &on, 16 * MIB);
    hold(&first, &on, 12 * MIB);
    hold(&second, &on, 12 * MIB);
    assert_eq!((first.reserved_bytes(), second.reserved_bytes()), (0, mib(12)));
    hold_pending(&machine, &first, &stream(), 12 * MIB);
    assert_eq!((first.reserved_bytes(), second.reserved_bytes()), (mib(12), 0));
    hold(&second, &on, 12 * MIB);
    let block = limit.allocate(&on, layout(10 * MIB)).expect("the limit asks them itself");
    assert_eq!(second.reserved_bytes(), 0);
    assert_eq!(beside.reserved_bytes(), mib(16), "it is not over the limit");
    free(&limit, &on, block, 10 * MIB);
}

#[test]
fn a_pool_asks_the_pools_over_it() {
    let _machine = machine(64).enter();
    let lower = Pool::builder(CudaMemoryResource::new()).maximum_size(mib(16)).build().unwrap();
    let [first, second] = [0; 2].map(|_| {
        let builder = PoolMemoryResource::builder(lower.clone()).growth(GrowthPolicy::Exact);
        builder.build().unwrap()
    });
    let on = stream();
    hold(&first, &on, 12 * MIB);
    hold(&second, &on, 12 * MIB);
    assert_eq!((first.reserved_bytes(), second.reserved_bytes()), (0, mib(12)));
    let block = lower.allocate(&on, layout(12 * MIB)).expect("a pool over it has it");
    assert_eq!(second.reserved_bytes(), 0);
    free(&lower, &on, block, 12 * MIB);
}

#[test]
fn memory_of_another_kind_or_device_is_no_help() {
    let _machine = Machine::builder().memory(64 * MIB).devices(2).enter();
    let on = stream();
    let pinned = PoolMemoryResource::builder(PinnedHostMemoryResource::new());
    let pinned = pinned.initial_size(mib(16)).build().unwrap();
    let elsewhere = {
        let _second = rmm_core::Device::new(1).unwrap().make_current().unwrap();
        Pool::builder(CudaMemoryResource::new()).initial_size(mib(16)).build().unwrap()
    };
    let (asker, here) = (pool(), pool());
    let used = here.allocate(&on, layout(32 * MIB)).unwrap();
    assert!(asker.allocate(&on, layout(48 * MIB)).unwrap_err().is_out_of_memory());
    assert_eq!((pinned.reserved_bytes(), elsewhere.reserved_bytes()), (mib(16), mib(16)));
    free(&here, &on, used, 32 * MIB);
}

#[test]
fn a_pool_is_built_from_what_siblings_hold() {
    let _machine = machine(64).enter();
    let (sibling, on) = (pool(), stream());
    hold(&sibling, &on, 48 * MIB);
    let built = Pool::builder(CudaMemoryResource::new()).initial_size(mib(48)).build();
    assert_eq!(built.expect("there is room").reserved_bytes(), mib(48));
}

#[test]
fn a_dropped_sibling_is_asked_no_more() {
    let _machine = machine(64).enter();
    let (asker, on) = (pool(), stream());
    drop([pool(), pool()]);
    let kept = pool();
    hold(&kept, &on, 48 * MIB);
    let block = asker.allocate(&on, layout(48 * MIB)).expect("one has it");
    free(&asker, &on, block, 48 * MIB);
}

/// At 95 % of the device's memory, two threads need in turn what the other's pool has idle.
#[test]
fn two_pools_at_the_same_time_never_fail() {
    for preset in [PoolPreset::Throughput, PoolPreset::Compact, PoolPreset::Deterministic] {
        let machine = Machine::builder().memory(64 * MIB).enter();
        let upstream = VirtualMemoryResource::new().unwrap();
        let first = PoolMemoryResource::builder(upstream).preset(preset).build().unwrap();
        let second = Pool::builder(CudaMemoryResource::new()).preset(preset).build().unwrap();
        let pools: [AnyResource; 2] = [AnyResource::new(first), AnyResource::new(second)];
        let pools = &pools;
        thread::scope(|scope| {
            for number in 0..2 {
                let machine = &machine;
                scope.spawn(move || {
                    let _entered = machine.enter();
                    let on = stream();
                    for round in 0..60 {
                        // 30 MiB each fit at the same time, but only if neither holds on to more.
                        let bytes = if (round + number) % 2 == 0 { 30 * MIB } else { 28 * MIB };
                        let pool = &pools[(round + number) % 2];
                        let block = pool
                            .allocate(&on, layout(bytes))
                            .unwrap_or_else(|error| panic!("{preset:?}, round {round}: {error:?}"));
                        keep_busy(machine, &on);
                        free(pool, &on, block, bytes);
                    }
                });
            }
        });
        machine.assert_no_violations();
    }
}

/// Both need all of the device: one at a time can have it, and the other takes it from there.
#[test]
fn of_two_that_ask_each_other_at_once_one_succeeds() {
    let machine = Machine::builder().memory(64 * MIB).enter();
    let pools = [pages(), pages()];
    let barrier = Arc::new(Barrier::new(2));
    let on = stream();
    for pool in &pools {
        hold(pool, &on, 30 * MIB);
    }
    for _ in 0..40 {
        let outcomes: Vec<Option<DevicePtr>> = thread::scope(|scope| {
            let threads = pools.each_ref().map(|pool| {
                let (machine, barrier) = (&machine, Arc::clone(&barrier));
                scope.spawn(move || {
                    let _entered = machine.enter();
                    barrier.wait();
                    pool.allocate_sync(layout(60 * MIB)).ok()
                })
            });
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(outcomes.iter().flatten().count(), 1, "one has it");
        for (pool, block) in pools.iter().zip(outcomes) {
            if let Some(block) = block {
                // SAFETY: allocated above with this layout, and not used.
                unsafe { pool.deallocate_sync(block, layout(60 * MIB)) };
            }
        }
    }
}

/// What several resources of one device do when they are short of memory, one after another.
fn ask_each_other(machine: &Machine) -> Result<(), rmm_core::Error> {
    let limit = LimitingResourceAdaptor::new(CudaMemoryResource::new(), mib(12));
    let resources: Vec<AnyResource> = vec![
        AnyResource::new(PoolMemoryResource::builder(limit.clone()).build()?),
        AnyResource::new(PoolMemoryResource::builder(limit.clone()).build()?),
        AnyResource::new(PoolMemoryResource::builder(VirtualMemoryResource::new()?).build()?),
        AnyResource::new(CudaAsyncMemoryResource::new()?),
        AnyResource::new(limit),
    ];
    let streams = [CudaStream::new()?, CudaStream::new()?];
    for (round, bytes) in [10 * MIB, 12 * MIB].into_iter().enumerate() {
        for resource in &resources {
            let on = &streams[round];
            if let Ok(block) = resource.allocate(on, layout(bytes)) {
                // A launch that fails is not the resource's.
                let _busy = machine.launch(on.as_raw(), rmm_sim::Kernel::new("busy", |_| {}));
                free(resource, on, block, bytes);
            }
        }
    }
    for resource in &resources {
        resource.trim_blocking(0);
    }
    Ok(())
}

#[test]
fn any_call_of_a_request_that_asks_others_may_fail() {
    let runs = [(CuResult::OUT_OF_MEMORY, Schedule::Lazy), (CuResult::UNKNOWN, Schedule::Eager)];
    for (code, schedule) in runs {
        let description = Machine::builder().memory(16 * MIB).schedule(schedule);
        let failed = Checker::new().machine(description).fail_each_call(code, |machine| {
            let outcome = ask_each_other(machine);
            if machine.failed_calls().is_empty() {
                outcome.expect("nothing fails");
                assert_eq!(machine.memory_in_use(0), 0, "all of it was returned");
            }
            machine.run_all();
        });
        assert!(failed > 50, "{failed} calls were made to fail");
    }
}
