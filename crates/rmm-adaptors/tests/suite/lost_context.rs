//! Tests of suballocators whose device is reset, or whose context is corrupted by a failed kernel:
//! calls fail with an error that says so, no memory of the old context is returned, none of the
//! next context's is freed, and new suballocators work.

use rmm_adaptors::{Contents, LimitingResourceAdaptor, PoolMemoryResource, SleepOptions};
use rmm_core::{
    AnySynchronousResource, Device, DevicePtr, HostAccessible, HostDeviceAccessible, Resource,
    StreamRef, SynchronousResource,
};
use rmm_resources::{HostMemoryResource, PinnedHostMemoryResource, VirtualMemoryResource};
use rmm_sim::{Kernel, Machine, Schedule};
use rmm_sys::CuResult;

use crate::fixtures::pool_on;
use crate::own_process;
use crate::support::{MIB, free, layout, mib};

fn machine() -> Machine {
    Machine::builder().memory(256 * MIB).schedule(Schedule::Lazy).build()
}

fn reset() {
    let device = Device::new(0).expect("a device").as_raw();
    // SAFETY: nothing uses the memory of the old context afterwards, except through the library,
    // which must cope.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device) };
    assert_eq!(code, CuResult::SUCCESS);
}

/// Creates the next context, which stays current.
fn start_anew() -> rmm_core::DeviceGuard {
    Device::new(0).and_then(Device::make_current).expect("a device")
}

/// A live block, and one freed on each of several streams, small and large, in thread caches and
/// not.
fn use_it(resource: &impl Resource, streams: &[StreamRef<'_>]) -> DevicePtr {
    for &stream in streams {
        for bytes in [4096, 4096, 3 * MIB / 2] {
            let block = resource.allocate(stream, layout(bytes)).expect("memory");
            free(resource, stream, block, bytes);
        }
    }
    resource.allocate(streams[0], layout(4096)).expect("memory")
}

fn assert_lost(resource: &impl Resource, stream: StreamRef<'_>) {
    for bytes in [4096, 3 * MIB / 2] {
        let error = resource.allocate(stream, layout(bytes)).expect_err("its context is gone");
        assert!(error.is_context_lost(), "{error}");
    }
    let error = resource.allocate_sync(layout(4096)).expect_err("its context is gone");
    assert!(error.is_context_lost(), "{error}");
}

#[test]
fn a_pool_reports_a_failed_kernel() {
    if own_process::has_run() {
        return;
    }
    let (machine, _entered, pool, [own]) = pool_on(machine(), |builder| builder);
    let live = use_it(&pool, &[own.as_stream_ref(), StreamRef::legacy()]);
    let kernel = Kernel::new("bad", |_| ()).fails(CuResult::ILLEGAL_ADDRESS);
    machine.launch(own.as_raw(), kernel).unwrap();
    let error = own.synchronize().unwrap_err();
    assert!(error.is_context_lost(), "{error}");
    assert_lost(&pool, own.as_stream_ref());
    assert_lost(&pool, StreamRef::legacy());
    free(&pool, &own, live, 4096);
    assert_eq!(pool.trim(0), 0);
    assert_eq!(pool.statistics().live_bytes, 0);
    drop((pool, own));
    machine.assert_no_violations();
}

type HostMemory = Option<AnySynchronousResource<HostAccessible>>;
type MakeHostMemory = fn() -> HostMemory;

/// Where a pool that sleeps may keep its contents.
const HOST_MEMORY: [(&str, MakeHostMemory); 5] = [
    ("pinned memory", || None),
    ("a pool", || Some(AnySynchronousResource::new(pinned_pool()))),
    ("a limit", || {
        let limit = LimitingResourceAdaptor::new(PinnedHostMemoryResource::new(), mib(64));
        Some(AnySynchronousResource::new(limit))
    }),
    ("a limit of a pool", || {
        Some(AnySynchronousResource::new(LimitingResourceAdaptor::new(pinned_pool(), mib(64))))
    }),
    ("memory of the host alone", || Some(AnySynchronousResource::new(HostMemoryResource::new()))),
];

fn pinned_pool() -> PoolMemoryResource<HostDeviceAccessible> {
    let builder = PoolMemoryResource::builder_with_properties(PinnedHostMemoryResource::new());
    builder.build().expect("a pool")
}

#[test]
fn contents_that_ended_with_the_context_are_not_freed() {
    if own_process::has_run() {
        return;
    }
    for (name, host) in HOST_MEMORY {
        let machine = machine().enter();
        let upstream = VirtualMemoryResource::new().expect("virtual memory");
        let pool = PoolMemoryResource::builder(upstream).build().expect("a pool");
        let block = pool.allocate_sync(layout(4 * MIB)).expect("memory");
        let options = SleepOptions::new(Contents::ToHost).wait_for_work(true);
        let options = match host() {
            Some(memory) => options.host_memory(memory),
            None => options,
        };
        // SAFETY: no work uses the pool's memory.
        unsafe { pool.sleep_with(options) }.expect("it falls asleep");
        reset();
        let next = start_anew();
        // At the addresses of the old ones.
        let pinned = PinnedHostMemoryResource::new();
        let theirs = [(); 3].map(|()| pinned.allocate_sync(layout(4 * MIB)).expect("memory"));
        let error = pool.wake().expect_err("its context is gone");
        assert!(error.is_context_lost(), "{error}");
        let frees = || {
            let counts = machine.call_counts();
            counts.iter().find(|(name, _)| *name == "cuMemFreeHost").map_or(0, |it| it.1)
        };
        let before = frees();
        // SAFETY: allocated above with this layout, and not used.
        unsafe { pool.deallocate_sync(block, layout(4 * MIB)) };
        drop(pool);
        assert_eq!(frees(), before, "{name}");
        for block in theirs {
            // SAFETY: allocated above with this layout, and not used.
            unsafe { pinned.deallocate_sync(block, layout(4 * MIB)) };
        }
        drop(next);
        machine.assert_no_violations();
        assert!(machine.leaks().is_empty(), "{name}: {:?}", machine.leaks());
    }
}
