//! Tests of trims through type erasure and adaptors, with frees pending and without.

use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource, LimitingResourceAdaptor,
    PoolMemoryResource, StatisticsResourceAdaptor,
};
use rmm_core::{
    AnyResource, AnySynchronousResource, CaptureScope, DeviceAccessible, DeviceAsyncResourceRef,
    DeviceResourceRef, HasProperty, Introspect, Resource,
};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::fixtures::lazy_machine;
use crate::own_process;
use crate::support::{MIB, free, keep_busy, layout, mib, stream};

/// Each suballocator under two adaptors, by name.
fn stacks() -> Vec<(&'static str, AnyResource)> {
    fn adapted<R>(resource: R) -> AnyResource
    where
        R: Resource + PartialEq + HasProperty<DeviceAccessible> + 'static,
    {
        let limited = LimitingResourceAdaptor::new(resource, 1 << 40);
        AnyResource::new(StatisticsResourceAdaptor::new(limited))
    }
    fn blocks<U>(upstream: U) -> FixedSizeMemoryResource
    where
        U: Resource + PartialEq + HasProperty<DeviceAccessible> + 'static,
    {
        let blocks = FixedSizeMemoryResource::builder(upstream);
        blocks.block_size(4 << 20).blocks(2).build().expect("there is memory")
    }
    let pool =
        || PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("there is memory");
    let pages = || VirtualMemoryResource::new().expect("there is memory");
    let arena = ArenaMemoryResource::builder(CudaMemoryResource::new()).arena_size(mib(8));
    let arena_of_pages = ArenaMemoryResource::builder(pages()).arena_size(mib(8));
    let bins = BinningMemoryResource::builder(pool());
    let bins = bins.bin_of(4 << 20, blocks(pool())).expect("there is memory").build();
    vec![
        ("pool", adapted(pool())),
        (
            "pool over pages",
            adapted(PoolMemoryResource::builder(pages()).build().expect("there is memory")),
        ),
        (
            "pool over a pool",
            adapted(PoolMemoryResource::builder(pool()).build().expect("there is memory")),
        ),
        ("fixed-size", adapted(blocks(CudaMemoryResource::new()))),
        ("arena", adapted(arena.build().expect("there is memory"))),
        ("arena of pages", adapted(arena_of_pages.build().expect("there is memory"))),
        ("binning", adapted(bins)),
        ("cuda-async", adapted(CudaAsyncMemoryResource::new().expect("there is memory"))),
    ]
}

/// The bytes of the device that are in use.
fn used(machine: &Machine) -> u64 {
    machine.memory_in_use(0) as u64
}

/// Waits for the device so far.
fn waits(machine: &Machine) -> u64 {
    let counts = machine.call_counts();
    let waits = counts.iter().filter(|(function, _)| *function == "cuCtxSynchronize");
    waits.map(|&(_, calls)| calls).sum()
}

fn count_stacks() -> usize {
    let _machine = lazy_machine().enter();
    stacks().len()
}

#[test]
fn every_suballocator_returns_pending_memory_if_it_waits() {
    for index in 0..count_stacks() {
        let machine = lazy_machine().enter();
        let (name, resource) = stacks().swap_remove(index);
        let on = stream();
        let held = used(&machine);
        let block = resource.allocate(&on, layout(4 * MIB)).unwrap();
        keep_busy(&machine, &on);
        free(&resource, &on, block, 4 * MIB);
        let reserved = used(&machine);
        assert!(reserved >= held.max(4 << 20), "{name} holds what was freed");
        assert_eq!(resource.trim_blocking(u64::MAX), 0, "{name} may keep everything");
        let rest = reserved - resource.trim(0);
        assert_eq!(used(&machine), rest, "{name} says what it gave");
        keep_busy(&machine, &on);
        assert_eq!(resource.trim_blocking(0), rest, "{name}");
        assert_eq!(used(&machine), 0, "{name} holds nothing any more");
        machine.assert_no_violations();
    }
}

#[test]
fn one_pending_free_holds_a_pool_back_until_it_waits() {
    let machine = Machine::builder().memory(1 << 30).schedule(Schedule::Lazy).enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(mib(256));
    let pool = pool.build().unwrap();
    let on = stream();
    let block = pool.allocate(&on, layout(MIB)).unwrap();
    keep_busy(&machine, &on);
    free(&pool, &on, block, MIB);
    assert_eq!(pool.trim(0), 0);
    assert_eq!(pool.trim_blocking(0), mib(256));
    let block = pool.allocate(&on, layout(MIB)).unwrap();
    keep_busy(&machine, &on);
    free(&pool, &on, block, MIB);
    let before = waits(&machine);
    assert_eq!((pool.trim_blocking(0), waits(&machine)), (mib(2), before + 1));
    assert_eq!((pool.trim_blocking(0), waits(&machine)), (0, before + 1), "nothing is pending");
}

#[test]
fn a_trim_does_not_wait_while_a_capture_is_announced() {
    if own_process::has_run() {
        return;
    }
    for index in 0..count_stacks() {
        let machine = lazy_machine().enter();
        let (name, resource) = stacks().swap_remove(index);
        let on = stream();
        let block = resource.allocate(&on, layout(4 * MIB)).unwrap();
        keep_busy(&machine, &on);
        free(&resource, &on, block, 4 * MIB);
        let before = waits(&machine);
        let scope = CaptureScope::announce();
        resource.trim_blocking(0);
        assert_eq!(waits(&machine), before, "{name} does not wait");
        drop(scope);
        resource.trim_blocking(0);
        assert_eq!(used(&machine), 0, "{name} holds nothing any more");
    }
}

#[test]
fn all_erased_resources_trim_what_they_hold() {
    let _machine = lazy_machine().enter();
    let pool = || PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(mib(2));
    let [a, b, c, d] = [0; 4].map(|_| pool().build().unwrap());
    assert_eq!(AnyResource::<()>::of(&a).trim(0), mib(2));
    assert_eq!(AnySynchronousResource::<()>::of(&b).trim(0), mib(2));
    assert_eq!(DeviceAsyncResourceRef::new(&c).trim_blocking(0), mib(2));
    assert_eq!(DeviceResourceRef::new(&d).trim(0), mib(2));
    assert_eq!(CudaMemoryResource::new().trim_stack(0), 0, "it holds nothing");
}
