//! Two devices: memory belongs to the device of its stream, whichever is current.

use rmm_core::{
    AnyResource, Device, DevicePtr, ErrorKind, ExtendableResource, Resource, StreamRef,
    SynchronousResource,
};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, CudaMemoryResource, ManagedMemoryResource,
    PinnedHostMemoryResource, VirtualMemoryResource, grant_access,
};
use rmm_sim::{Fault, Kernel, Machine};
use rmm_sys::{CuDevicePtr, CuMemAccessFlags, CuResult};

use crate::short::{MIB, device_of, layout, lazy, stream, stream_of_second};

fn two_devices() -> Machine {
    lazy().devices(2).build()
}

/// Allocates and frees a block, and returns its device.
fn device_of_block(resource: &dyn Resource, stream: StreamRef<'_>) -> i32 {
    let block = resource.do_allocate(stream, layout(MIB, 256)).expect("memory");
    let device = device_of(block);
    // SAFETY: allocated above with this layout on this stream.
    unsafe { resource.do_deallocate(stream, block, layout(MIB, 256)) };
    device
}

#[test]
fn memory_is_of_the_device_of_its_stream() {
    let _machine = two_devices().enter();
    let (first, second) = (stream(), stream_of_second());
    let cuda = CudaMemoryResource::new();
    assert_eq!(device_of_block(&cuda, second.as_stream_ref()), 1, "while device 0 is current");
    assert_eq!(Device::current().expect("a device").ordinal(), 0, "it is current still");
    let _current = Device::new(1).expect("a device").make_current().expect("it is made current");
    assert_eq!(device_of_block(&cuda, first.as_stream_ref()), 0, "while device 1 is current");
    assert_eq!(device_of_block(&cuda, StreamRef::legacy()), 1, "the current device's stream");
}

#[test]
fn a_resource_of_another_device_refuses_a_stream() {
    let _machine = two_devices().enter();
    let (first, second) = (stream(), stream_of_second());
    let pool = CudaAsyncMemoryResource::new().expect("a pool");
    let view = CudaAsyncViewMemoryResource::of_default_pool(Device::new(0).expect("a device"));
    let view = view.expect("a pool");
    let mapped = VirtualMemoryResource::new().expect("a resource");
    for resource in [&pool as &dyn Resource, &view, &mapped] {
        let refused = resource.do_allocate(second.as_stream_ref(), layout(MIB, 256));
        let refused = refused.expect_err("the memory is of the other device");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains("the stream is of device 1"), "{refused}");
        assert_eq!(device_of_block(resource, first.as_stream_ref()), 0);
    }
    // A grant of access is enough.
    let devices = [Device::new(1).expect("a device")];
    pool.pool().grant_access(&devices).expect("they are peers");
    assert_eq!(device_of_block(&pool, second.as_stream_ref()), 0);
    let shared = VirtualMemoryResource::builder().accessible_from(devices[0]).build();
    assert_eq!(device_of_block(&shared.expect("a resource"), second.as_stream_ref()), 0);
}

#[test]
fn granted_virtual_memory_is_used_from_the_other_device() {
    let machine = two_devices().enter();
    let (home, other) = (Device::new(0).expect("a device"), Device::new(1).expect("a device"));
    let second = stream_of_second();
    let resource = VirtualMemoryResource::new().expect("a resource");
    let (page, bytes) = (layout(2 * MIB, 256), 2 * MIB);
    let write_from_second = |block: DevicePtr| {
        let kernel = Kernel::new("write", |_| ()).writes(CuDevicePtr(block.0), bytes);
        machine.launch(second.as_raw(), kernel).expect("it is enqueued");
        second.synchronize().expect("the second device has access");
    };
    // One block that stays, one that is unmapped before the grant, and one that sleeps during it.
    let [stays, goes, sleeps] = [(); 3].map(|()| resource.allocate_sync(page).expect("memory"));
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(goes, page) };
    // SAFETY: as above; it is not used before it is resumed.
    unsafe { resource.suspend(&[(sleeps, page)]) }.expect("it is suspended");
    resource.grant_access(other).expect("they are peers");
    let calls = machine.calls();
    for device in [other, home] {
        resource.grant_access(device).expect("it has access");
    }
    assert_eq!(machine.calls(), calls, "nothing is to be done");
    resource.resume(&[(sleeps, page)]).expect("memory");
    let later = resource.allocate_sync(page).expect("memory");
    for block in [stays, sleeps, later] {
        write_from_second(block);
        // SAFETY: allocated above with this layout; its work is done.
        unsafe { resource.deallocate_sync(block, page) };
    }
    drop((resource, second));
    machine.assert_no_violations();
    assert_eq!(machine.leaks(), []);
}

#[test]
fn a_grant_reaches_every_resource_of_a_stack() {
    let _machine = two_devices().enter();
    let other = Device::new(1).expect("a device");
    let pool = CudaAsyncMemoryResource::new().expect("a pool");
    grant_access(&AnyResource::<()>::new(pool.clone()), other).expect("they are peers");
    assert_eq!(pool.pool().access(other).expect("known"), CuMemAccessFlags::READ_WRITE);
    grant_access(&CudaMemoryResource::new(), other).expect("nothing is to be done");
}

#[test]
fn a_device_that_is_no_peer_of_a_driver_pool_is_not_supported() {
    let machine = two_devices().enter();
    let other = Device::new(1).expect("a device");
    let pool = CudaAsyncMemoryResource::new().expect("a pool");
    for (code, kind) in [
        (CuResult::INVALID_DEVICE, ErrorKind::Unsupported),
        (CuResult::PEER_ACCESS_UNSUPPORTED, ErrorKind::Unsupported),
        (CuResult::UNKNOWN, ErrorKind::Driver),
    ] {
        machine.fail(Fault::nth("cuMemPoolSetAccess", 1, code));
        let refused = grant_access(&pool, other).expect_err("the driver refuses");
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    grant_access(&pool, other).expect("they are peers");
}

#[test]
fn a_grant_that_the_driver_refuses_changes_nothing() {
    let machine = two_devices().enter();
    let (other, second) = (Device::new(1).expect("a device"), stream_of_second());
    let resource = VirtualMemoryResource::new().expect("a resource");
    let page = layout(2 * MIB, 256);
    let block = resource.allocate_sync(page).expect("memory");
    machine.fail(Fault::nth("cuMemSetAccess", 1, CuResult::OUT_OF_MEMORY));
    resource.grant_access(other).expect_err("the driver refuses");
    let refused = resource.do_allocate(second.as_stream_ref(), page).expect_err("no access");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    resource.grant_access(other).expect("it is tried again");
    assert_eq!(device_of_block(&resource, second.as_stream_ref()), 0);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(block, page) };
}

#[test]
fn memory_of_every_device_is_served_on_every_stream() {
    let _machine = two_devices().enter();
    let second = stream_of_second();
    let managed = CudaAsyncManagedMemoryResource::new().expect("a pool");
    let pinned = CudaAsyncPinnedMemoryResource::new().expect("a pool");
    let (plain, locked) = (ManagedMemoryResource::new(), PinnedHostMemoryResource::new());
    for resource in [&managed as &dyn Resource, &pinned, &plain, &locked] {
        device_of_block(resource, second.as_stream_ref());
    }
}
