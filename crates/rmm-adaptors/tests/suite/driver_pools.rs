//! Tests that what other libraries have freed in the driver's default and current pools is had
//! before a request fails.

use rmm_core::{
    AnyResource, CaptureScope, CudaStream, Device, DevicePtr, Introspect, RemedyAction, Resource,
    SynchronousResource, current_driver,
};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};
use rmm_sys::{
    CuMemLocation, CuMemLocationType, CuMemPool, CuMemPoolAttribute, CuMemPoolProps, CuResult,
    Driver,
};

use crate::own_process;
use crate::siblings::{ASKERS, waits};
use crate::support::{MIB, Pool, free, keep_busy, layout, mib, stream};

fn driver() -> &'static Driver {
    current_driver().expect("a driver")
}

/// From which pool the other library allocates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum From {
    /// That of the device, as it is.
    Default,
    /// One that the program has made current.
    Current,
}

/// What the other library and the device have done since the free.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Since {
    Nothing,
    /// The work before the free runs, and no one waits for it.
    StillRuns,
    /// The host has waited.
    Waited,
}

/// Another library, which calls the driver by itself.
pub(crate) struct Library {
    pool: CuMemPool,
    from: From,
    on: CudaStream,
}

impl Library {
    pub(crate) fn new(from: From, threshold: u64) -> Self {
        let device = Device::current().expect("a device").as_raw();
        let mut pool = CuMemPool::NULL;
        let code = match from {
            // SAFETY: `pool` may be written to.
            From::Default => unsafe { driver().cuDeviceGetDefaultMemPool(&raw mut pool, device) },
            From::Current => {
                let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: device.0 };
                let properties = CuMemPoolProps::pinned(location);
                // SAFETY: `pool` may be written to, and the properties read.
                let code =
                    unsafe { driver().cuMemPoolCreate(&raw mut pool, &raw const properties) };
                assert_eq!(code, CuResult::SUCCESS);
                // SAFETY: the pool was made just now.
                unsafe { driver().cuDeviceSetMemPool(device, pool) }
            }
        };
        assert_eq!(code, CuResult::SUCCESS);
        let mut value = threshold;
        let attribute = CuMemPoolAttribute::RELEASE_THRESHOLD;
        // SAFETY: the pool exists, and the attribute is a `u64`.
        let code =
            unsafe { driver().cuMemPoolSetAttribute(pool, attribute, (&raw mut value).cast()) };
        assert_eq!(code, CuResult::SUCCESS);
        Self { pool, from, on: stream() }
    }

    /// As `cudaMallocAsync`.
    pub(crate) fn allocate(&self, bytes: usize) -> DevicePtr {
        let mut pointer = DevicePtr::NULL;
        // SAFETY: `pointer` may be written to, and the stream exists.
        let code = unsafe { driver().cuMemAllocAsync(&raw mut pointer, bytes, self.on.as_raw()) };
        assert_eq!(code, CuResult::SUCCESS);
        pointer
    }

    /// As `cudaFreeAsync`.
    pub(crate) fn free(&self, pointer: DevicePtr) {
        // SAFETY: allocated by `allocate`, and freed once.
        let code = unsafe { driver().cuMemFreeAsync(pointer, self.on.as_raw()) };
        assert_eq!(code, CuResult::SUCCESS);
    }

    /// Allocates and frees so much.
    fn leave(&self, machine: &Machine, bytes: usize, since: Since) {
        let block = self.allocate(bytes);
        if since == Since::StillRuns {
            keep_busy(machine, &self.on);
        }
        self.free(block);
        if since == Since::Waited {
            self.on.synchronize().expect("it runs");
        }
    }

    fn reserved(&self) -> u64 {
        let mut bytes = 0_u64;
        let attribute = CuMemPoolAttribute::RESERVED_MEM_CURRENT;
        // SAFETY: the pool exists, and the attribute is a `u64`.
        let code = unsafe {
            driver().cuMemPoolGetAttribute(self.pool, attribute, (&raw mut bytes).cast())
        };
        assert_eq!(code, CuResult::SUCCESS);
        bytes
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if self.from == From::Current {
            // SAFETY: made in `new`, and its memory is freed.
            let _ignored = unsafe { driver().cuMemPoolDestroy(self.pool) };
        }
    }
}

fn machine() -> Machine {
    Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).build()
}

/// Has each resource ask while a library has freed 48 of 64 MiB in each way.
fn every_way(run: impl Fn(&Machine, &AnyResource, &Library, Since, &str)) {
    for (who, make) in ASKERS {
        for from in [From::Default, From::Current] {
            for threshold in [0, u64::MAX] {
                for since in [Since::Nothing, Since::StillRuns, Since::Waited] {
                    let machine = machine().enter();
                    let (asker, library) = (make(), Library::new(from, threshold));
                    let case = format!("{who}: {from:?}, threshold {threshold}, {since:?}");
                    library.leave(&machine, 48 * MIB, since);
                    run(&machine, &asker, &library, since, &case);
                    drop((asker, library));
                    machine.assert_no_violations();
                    assert!(machine.leaks().is_empty(), "{case}: {:?}", machine.leaks());
                }
            }
        }
    }
}

#[test]
fn what_libraries_freed_in_driver_pools_is_had() {
    every_way(|_machine, asker, library, _since, case| {
        let on = stream();
        let block = asker.allocate(&on, layout(48 * MIB));
        let block = block.unwrap_or_else(|error| panic!("{case}: {error:?}"));
        assert_eq!(library.reserved(), 0, "{case}");
        free(asker, &on, block, 48 * MIB);
    });
}

#[test]
fn no_request_waits_for_driver_pools_in_a_capture() {
    if own_process::has_run() {
        return;
    }
    every_way(|machine, asker, library, since, case| {
        let (on, _scope) = (stream(), CaptureScope::announce());
        let before = waits(machine);
        match asker.allocate(&on, layout(48 * MIB)) {
            Ok(block) => free(asker, &on, block, 48 * MIB),
            Err(error) => assert_ne!(since, Since::Waited, "{case}: {error:?}"),
        }
        assert_eq!(waits(machine), before, "{case}");
        drop(library.on.synchronize());
    });
}

#[test]
fn a_request_in_a_capture_learns_what_driver_pools_hold() {
    if own_process::has_run() {
        return;
    }
    let machine = machine().enter();
    let pool = Pool::builder(CudaMemoryResource::new()).build().unwrap();
    let library = Library::new(From::Default, u64::MAX);
    library.leave(&machine, 48 * MIB, Since::Nothing);
    let scope = CaptureScope::announce();
    let error = pool.allocate_sync(layout(48 * MIB)).expect_err("it may not wait");
    drop(scope);
    let trims = |remedy: &rmm_core::Remedy| match remedy.action {
        RemedyAction::TrimSibling { resource, .. } => resource == "driver-pools",
        _ => false,
    };
    let remedy = error.remedies().iter().find(|remedy| trims(remedy));
    assert_eq!(remedy.map(|remedy| (remedy.bytes, remedy.is_enough)), Some((mib(48), true)));
    let block = pool.allocate_sync(layout(48 * MIB)).expect("now it waits");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pool.deallocate_sync(block, layout(48 * MIB)) };
}

#[test]
fn a_request_that_driver_pools_cannot_serve_waits_for_none() {
    let machine = machine().enter();
    let (pool, on) = (Pool::builder(CudaMemoryResource::new()).build().unwrap(), stream());
    let library = Library::new(From::Default, u64::MAX);
    let used = library.allocate(16 * MIB);
    library.leave(&machine, 32 * MIB, Since::StillRuns);
    let before = waits(&machine);
    let error = pool.allocate(&on, layout(56 * MIB)).expect_err("16 MiB are in use");
    assert!(error.is_out_of_memory());
    assert_eq!(waits(&machine), before, "there is no more to have");
    library.free(used);
    let block = pool.allocate(&on, layout(56 * MIB)).expect("there is now");
    free(&pool, &on, block, 56 * MIB);
}

#[test]
fn a_pool_of_another_device_waits_for_its_own() {
    let builder = Machine::builder().memory(64 * MIB).devices(2).schedule(Schedule::Lazy);
    let machine = builder.enter();
    let pool = Pool::builder(CudaMemoryResource::new()).build().unwrap();
    let library = Library::new(From::Default, u64::MAX);
    library.leave(&machine, 48 * MIB, Since::StillRuns);
    let on = stream();
    let _other = Device::new(1).unwrap().make_current().unwrap();
    let block = pool.allocate(&on, layout(48 * MIB)).expect("the driver's pool has it");
    free(&pool, &on, block, 48 * MIB);
    machine.assert_no_violations();
}

#[test]
fn a_failed_call_of_the_driver_loses_no_memory_of_its_pools() {
    let machine = Machine::builder().memory(16 * MIB).schedule(Schedule::Lazy);
    let failed =
        rmm_sim::Checker::new().machine(machine).fail_each_call(CuResult::UNKNOWN, |machine| {
            let Ok(pool) = Pool::builder(CudaMemoryResource::new()).build() else { return };
            let Ok(on) = CudaStream::new() else { return };
            let (Ok(driver), mut pointer) = (current_driver(), DevicePtr::NULL) else { return };
            // SAFETY: `pointer` may be written to, and the stream exists.
            let code = unsafe { driver.cuMemAllocAsync(&raw mut pointer, 12 * MIB, on.as_raw()) };
            if code == CuResult::SUCCESS {
                // SAFETY: allocated above. A free that the driver refuses is made again.
                let freed = || unsafe { driver.cuMemFreeAsync(pointer, on.as_raw()) };
                let _freed = (freed() == CuResult::SUCCESS) || (freed() == CuResult::SUCCESS);
            }
            if let Ok(block) = pool.allocate(&on, layout(12 * MIB)) {
                free(&pool, &on, block, 12 * MIB);
            } else {
                assert!(!machine.failed_calls().is_empty(), "the driver's pool has it");
            }
            pool.trim_blocking(0);
        });
    assert!(failed > 10, "{failed} calls were made to fail");
}

#[test]
fn descriptions_name_what_driver_pools_hold() {
    let machine = machine().enter();
    let pool = Pool::builder(CudaMemoryResource::new()).build().unwrap();
    let plain = "pool: live 0 B, peak live 0 B, reserved 0 B\n└─ cuda";
    assert_eq!(pool.describe().to_string(), plain);
    let library = Library::new(From::Default, u64::MAX);
    let used = library.allocate(2 * MIB);
    library.leave(&machine, 14 * MIB, Since::Nothing);
    let described = pool.describe().to_string();
    let held = format!("{plain}: driver pools 32.0 MiB, in use there 2.0 MiB");
    assert_eq!(described, held);
    let pages = rmm_resources::VirtualMemoryResource::new().unwrap();
    let held = "virtual: driver pools 32.0 MiB, in use there 2.0 MiB";
    assert_eq!(pages.describe().to_string(), held);
    library.free(used);
}
