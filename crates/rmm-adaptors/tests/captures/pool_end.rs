//! Tests of dropping a suballocator while a stream may be captured: the device cannot be
//! synchronized, so memory that may be in use is kept.

use std::sync::MutexGuard;
use std::time::Duration;

use rmm_adaptors::{ArenaMemoryResource, FixedSizeMemoryResource, PoolMemoryResource};
use rmm_core::{CaptureScope, Device, Resource, StreamRef};
use rmm_resources::{PinnedHostMemoryResource, VirtualMemoryResource};
use rmm_sim::{Fault, Kernel, Machine, MachineGuard, Schedule, ViolationKind};
use rmm_sys::CuResult;

use crate::graph_support::{alone, begin};
use crate::support::{MIB, free, layout, mib, stream};

fn adversary() -> (Machine, (MachineGuard, MutexGuard<'static, ()>)) {
    let alone = alone();
    let machine = Machine::builder().memory(256 * MIB).schedule(Schedule::Timed).build();
    let entered = machine.enter();
    (machine, (entered, alone))
}

/// Leaves a live block with pending work, and drops the resource while a capture is announced.
fn drop_under_work(machine: &Machine, resource: impl Resource) {
    let user = stream();
    let block = resource.allocate(&user, layout(4096)).expect("memory");
    let kernel = Kernel::new("slow", |_| ()).writes(block, 4096).lasts(Duration::from_secs(1000));
    // SAFETY: no part of the program reads or writes the memory.
    unsafe { machine.launch_on_shared(user.as_raw(), kernel) }.expect("a launch");
    let scope = CaptureScope::announce();
    drop(resource);
    drop(scope);
    machine.assert_no_violations();
    user.synchronize().expect("the work is done");
    machine.assert_no_violations();
}

#[test]
fn a_pool_keeps_the_memory_of_an_unfreed_block() {
    let (machine, _entered) = adversary();
    let pinned = PinnedHostMemoryResource::new();
    drop_under_work(&machine, PoolMemoryResource::builder(pinned).build().unwrap());
    let virtual_memory = VirtualMemoryResource::new().unwrap();
    drop_under_work(&machine, PoolMemoryResource::builder(virtual_memory).build().unwrap());
}

#[test]
fn an_arena_keeps_the_memory_of_an_unfreed_block() {
    let (machine, _entered) = adversary();
    let pinned = PinnedHostMemoryResource::new();
    let arena = ArenaMemoryResource::builder(pinned).arena_size(mib(8)).build().unwrap();
    drop_under_work(&machine, arena);
}

#[test]
fn a_fixed_size_resource_keeps_an_unfreed_block() {
    let (machine, _entered) = adversary();
    let pinned = PinnedHostMemoryResource::new();
    drop_under_work(&machine, FixedSizeMemoryResource::builder(pinned).build().unwrap());
}

#[test]
fn dropping_a_pool_in_an_unannounced_capture_frees_nothing() {
    let (machine, _entered) = adversary();
    let upstream = VirtualMemoryResource::new().unwrap();
    let arena = ArenaMemoryResource::builder(upstream).arena_size(mib(16)).build().unwrap();
    std::thread::scope(|scope| {
        let (arena, machine) = (&arena, &machine);
        scope.spawn(move || {
            let _entered = machine.enter();
            let _current = Device::new(0).and_then(Device::make_current).expect("a device");
            let own = StreamRef::per_thread();
            let block = arena.allocate(own, layout(64 << 10)).expect("memory");
            let kernel = Kernel::new("slow", |_| ()).writes(block, 64 << 10);
            machine
                .launch(own.as_raw(), kernel.lasts(Duration::from_secs(1000)))
                .expect("a launch");
            // In the order of its stream, on which no event can be recorded once the thread has
            // ended.
            free(arena, own, block, 64 << 10);
        });
    });
    let captured = stream();
    begin(&captured);
    drop(arena);
    // Synchronizing the device invalidates an unannounced capture, and fails itself, so it proves
    // nothing.
    let of_memory = |kind: &ViolationKind| *kind != ViolationKind::CaptureUnsafe;
    let found: Vec<_> = machine.violations().into_iter().filter(|it| of_memory(&it.kind)).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn frees_without_an_event_stay_if_no_wait_is_possible() {
    let (machine, _entered) = adversary();
    let pool = PoolMemoryResource::builder(PinnedHostMemoryResource::new()).build().unwrap();
    let legacy = StreamRef::legacy();
    let block = pool.allocate(legacy, layout(4096)).expect("memory");
    let kernel = Kernel::new("slow", |_| ()).writes(block, 4096).lasts(Duration::from_secs(1000));
    // SAFETY: no part of the program reads or writes the memory.
    unsafe { machine.launch_on_shared(legacy.as_raw(), kernel) }.expect("a launch");
    machine.fail(Fault::from_nth("cuEventRecord", 1, CuResult::UNKNOWN));
    free(&pool, legacy, block, 4096);
    let scope = CaptureScope::announce();
    drop(pool);
    drop(scope);
    machine.assert_no_violations();
}

#[test]
fn frees_on_an_unidentified_stream_stay_if_no_wait_is_possible() {
    let (machine, _entered) = adversary();
    let pool = PoolMemoryResource::builder(PinnedHostMemoryResource::new()).build().unwrap();
    let user = stream();
    let of_handle = |raw: StreamRef<'_>| {
        let block = pool.allocate(raw, layout(4096)).expect("memory");
        let kernel = Kernel::new("slow", |_| ()).writes(block, 4096);
        // SAFETY: no part of the program reads or writes the memory.
        unsafe { machine.launch_on_shared(raw.as_raw(), kernel.lasts(Duration::from_secs(1000))) }
            .expect("a launch");
        machine.fail(Fault::from_nth("cuStreamGetId", 1, CuResult::UNKNOWN));
        free(&pool, raw, block, 4096);
    };
    // SAFETY: the stream exists during the call.
    unsafe { StreamRef::with_raw(user.as_raw(), of_handle) }.expect("a stream");
    let scope = CaptureScope::announce();
    drop(pool);
    drop(scope);
    machine.assert_no_violations();
}
