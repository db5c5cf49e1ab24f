//! Devices, and the current one.

use rmm_core::{Context, Device, ErrorKind, MemoryInfo, SynchronousResource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Fault, Machine};
use rmm_sys::CuResult;

use crate::world::calls_of;
use std::alloc::Layout;

fn machine() -> Machine {
    Machine::builder().devices(3).memory(1 << 30).build()
}

fn current() -> usize {
    Device::current().expect("a device").ordinal()
}

#[test]
fn all_devices_are_listed_in_order() {
    let _machine = machine().enter();
    let all = Device::all().unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(all.map(Device::ordinal).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(Device::new(3).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(Device::new(usize::MAX).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn devices_of_different_machines_are_distinct() {
    let uuids = || {
        let machine = machine();
        machine
            .scope(|| Device::all().unwrap().map(|d| d.uuid().unwrap().bytes).collect::<Vec<_>>())
    };
    let mut all = [uuids(), uuids()].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6);
}

#[test]
fn a_share_of_free_memory_is_whole_granules_and_at_most_all() {
    let _machine = Machine::builder().memory((1 << 30) + 1000).enter();
    let MemoryInfo { free, .. } = Device::memory_info().unwrap();
    for percent in 0..=100 {
        let share = Device::percent_of_free_memory(percent).unwrap();
        assert_eq!(share, free * u64::from(percent) / 100 / 256 * 256, "{percent}");
    }
    for percent in [101, 1000, u32::MAX] {
        assert!(Device::percent_of_free_memory(percent).unwrap_err().is_invalid_argument());
    }
    let layout = Layout::from_size_align(1 << 29, 256).unwrap();
    let taken = CudaMemoryResource::new().allocate_sync(layout).unwrap();
    let rest = Device::memory_info().unwrap().free;
    assert!(rest < free);
    assert_eq!(Device::percent_of_free_memory(100).unwrap(), rest / 256 * 256);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { CudaMemoryResource::new().deallocate_sync(taken, layout) };
}

#[test]
fn a_failed_memory_query_is_an_error() {
    let machine = machine().enter();
    Device::current().unwrap();
    machine.fail(Fault::nth("cuMemGetInfo_v2", 1, CuResult::SYSTEM_NOT_READY));
    let error = Device::percent_of_free_memory(50).unwrap_err();
    assert_eq!((error.kind(), error.origin()), (ErrorKind::Driver, "cuMemGetInfo_v2"));
}

#[test]
fn peers_are_the_other_devices() {
    let machine = machine().enter();
    let devices: Vec<Device> = Device::all().unwrap().collect();
    assert!(devices[0].can_access_peer(devices[1]).unwrap());
    assert!(!devices[1].can_access_peer(devices[1]).unwrap());
    machine.fail(Fault::nth("cuDeviceCanAccessPeer", 1, CuResult::INVALID_DEVICE));
    assert!(devices[0].can_access_peer(devices[1]).unwrap_err().is_driver());
}

#[test]
fn a_context_is_entered_and_left_whichever_is_current() {
    let _machine = machine().enter();
    let first = Context::current().unwrap();
    let _second = Device::new(1).unwrap().make_current().unwrap();
    {
        let _first = first.enter().unwrap();
        assert_eq!(current(), 0);
        let _again = first.enter().unwrap();
        assert_eq!(current(), 0);
    }
    assert_eq!(current(), 1);
}

#[test]
fn a_context_is_entered_without_another_being_made() {
    let machine = machine().enter();
    let context = {
        let _second = Device::new(1).unwrap().make_current().unwrap();
        Context::current().unwrap()
    };
    let retained = calls_of(&machine, "cuDevicePrimaryCtxRetain");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = machine.enter();
            {
                let _guard = context.enter().unwrap();
                assert_eq!(current(), 1);
            }
            assert_eq!(calls_of(&machine, "cuDevicePrimaryCtxRetain"), retained);
            assert_eq!(current(), 0, "as on any thread that has none");
        });
    });
}

#[test]
fn a_device_that_cannot_be_made_current_changes_nothing() {
    let machine = machine().enter();
    let device = Device::new(1).unwrap();
    assert_eq!(current(), 0);
    for function in ["cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2"] {
        machine.fail(Fault::nth(function, 1, CuResult::SYSTEM_NOT_READY));
        assert_eq!(device.make_current().unwrap_err().origin(), function);
        assert_eq!(current(), 0);
        machine.clear_faults();
    }
}

#[test]
fn the_driver_can_be_called_at_once() {
    let _machine = rmm_sim::enter();
    let driver = rmm_core::current_driver().expect("the software driver");
    let (mut count, mut free, mut total) = (0, 0, 0);
    // SAFETY: `count` may be written to.
    let code = unsafe { driver.cuDeviceGetCount(&raw mut count) };
    assert!(code.is_success() && count == 1, "{code}");
    // SAFETY: both may be written to.
    let code = unsafe { driver.cuMemGetInfo_v2(&raw mut free, &raw mut total) };
    assert!(code.is_success(), "{code}");
}
