//! Memory of the host that was allocated through a context, and whose owner is dropped after the
//! device was reset: it is not freed, since new allocations may be at its address.

#![cfg(feature = "allocator-api2")]

use std::any::Any;

use allocator_api2::vec::Vec as VecIn;
use rmm_adaptors::{LimitingResourceAdaptor, PoolMemoryResource};
use rmm_containers::{HostAllocator, HostVec, ManagedVec, PinnedVec};
use rmm_core::{
    Device, DeviceGuard, HasProperty, HostAccessible, HostDeviceAccessible, SynchronousResource,
};
use rmm_resources::{
    HostMemoryResource, ManagedMemoryResource, PinnedHostMemoryResource,
    RegisteredHostMemoryResource,
};
use rmm_sim::Machine;
use rmm_sys::CuResult;

const BYTES: usize = 1 << 20;

type Owner = Box<dyn Any>;
type Make = fn() -> Owner;

fn collection<R>(resource: R) -> Owner
where
    R: SynchronousResource + HasProperty<HostAccessible> + 'static,
{
    let mut numbers = VecIn::<u8, _>::new_in(HostAllocator::new(resource));
    numbers.resize(BYTES, 1);
    Box::new(numbers)
}

fn pinned_pool() -> PoolMemoryResource<HostDeviceAccessible> {
    PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(
        PinnedHostMemoryResource::new(),
    )
    .build()
    .expect("a pool")
}

/// Owners of memory that ends with the context.
const OWNERS: [(&str, Make); 12] = [
    ("a collection in pinned memory", || collection(PinnedHostMemoryResource::new())),
    ("a collection in managed memory", || collection(ManagedMemoryResource::new())),
    ("a collection in registered memory", || collection(RegisteredHostMemoryResource::new())),
    ("a collection in a pool", || collection(pinned_pool())),
    ("a collection under a limit", || {
        collection(LimitingResourceAdaptor::new(PinnedHostMemoryResource::new(), 64 << 20))
    }),
    ("a collection in a reservation", || {
        collection(pinned_pool().reserve(2 << 20).expect("there is room"))
    }),
    ("a pinned vector", || Box::new(PinnedVec::<u8>::zeroed(BYTES).expect("there is room"))),
    ("a managed vector", || Box::new(ManagedVec::<u8>::zeroed(BYTES).expect("there is room"))),
    ("a vector in a pool", || {
        Box::new(HostVec::<u8, _>::zeroed_in(BYTES, pinned_pool()).expect("there is room"))
    }),
    ("a clone of a vector", || {
        let vector = PinnedVec::<u8>::zeroed(BYTES).expect("there is room");
        Box::new(vector.try_clone().expect("there is room"))
    }),
    ("a vector that grew on another device", || {
        let mut vector = PinnedVec::<u8>::zeroed(BYTES / 2).expect("there is room");
        let _other = Device::new(1).and_then(Device::make_current).expect("a device");
        vector.resize(BYTES, 1).expect("there is room");
        Box::new(vector)
    }),
    ("a collection that grew on another device", || {
        let pinned = HostAllocator::new(PinnedHostMemoryResource::new());
        let mut numbers = VecIn::<u8, _>::with_capacity_in(BYTES / 2, pinned);
        let _other = Device::new(1).and_then(Device::make_current).expect("a device");
        numbers.resize(BYTES, 1);
        Box::new(numbers)
    }),
];

/// Resets the device, and makes the next context current.
fn reset() -> DeviceGuard {
    let device = Device::new(0).expect("a device");
    // SAFETY: nothing accesses the old context's memory afterwards.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device.as_raw()) };
    assert_eq!(code, CuResult::SUCCESS);
    device.make_current().expect("a device")
}

fn frees(machine: &Machine) -> u64 {
    let names = ["cuMemFreeHost", "cuMemFree_v2", "cuMemHostUnregister"];
    let counts = machine.call_counts();
    counts.iter().filter(|(name, _)| names.contains(name)).map(|&(_, count)| count).sum()
}

#[test]
fn owners_of_memory_that_has_ended_free_nothing() {
    for (name, make) in OWNERS {
        let machine = Machine::builder().devices(2).memory(64 << 20).enter();
        let _first = Device::new(0).and_then(Device::make_current).expect("a device");
        let old = make();
        let _next = reset();
        let source = vec![7; BYTES];
        // At the addresses of the old ones.
        let pinned = [(); 3].map(|()| PinnedVec::from_slice(&source).expect("there is room"));
        let managed = [(); 3].map(|()| ManagedVec::from_slice(&source).expect("there is room"));
        let before = frees(&machine);
        drop(old);
        assert_eq!(frees(&machine), before, "{name}");
        for slice in
            pinned.iter().map(PinnedVec::as_slice).chain(managed.iter().map(ManagedVec::as_slice))
        {
            assert_eq!(slice.expect("it is there"), source, "{name}");
        }
        drop((pinned, managed));
        machine.assert_no_violations();
    }
}

/// A vector and a clone of its allocator: one ends with the context, the other allocates after it.
#[test]
fn an_allocator_whose_context_has_ended_allocates_no_more() {
    let machine = Machine::builder().memory(64 << 20).enter();
    let _first = Device::new(0).and_then(Device::make_current).expect("a device");
    let allocator = HostAllocator::new(PinnedHostMemoryResource::new());
    let mut old = VecIn::<u8, _>::new_in(allocator.clone());
    old.resize(BYTES, 1);
    let _next = reset();
    let mut refused = VecIn::<u8, _>::new_in(allocator.clone());
    assert!(refused.try_reserve_exact(BYTES).is_err());
    let mut vector = PinnedVec::<u8>::new().expect("a context");
    vector.resize(BYTES, 1).expect("it is of the next context");
    drop((old, refused));
    assert_eq!(vector.as_slice().expect("it is there"), vec![1; BYTES]);
    drop(vector);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn a_vector_whose_context_has_ended_says_so_when_it_grows() {
    let machine = Machine::builder().memory(64 << 20).enter();
    let _first = Device::new(0).and_then(Device::make_current).expect("a device");
    let mut vector = PinnedVec::<u8>::zeroed(BYTES).expect("there is room");
    let _next = reset();
    let error = vector.resize(2 * BYTES, 1).expect_err("its memory is gone");
    assert!(error.is_context_lost(), "{error}");
    machine.assert_no_violations();
}

#[test]
fn memory_of_the_host_alone_outlives_a_reset() {
    let _machine = Machine::builder().memory(64 << 20).enter();
    let _first = Device::new(0).and_then(Device::make_current).expect("a device");
    let mut numbers = VecIn::<u8, _>::new_in(HostAllocator::new(HostMemoryResource::new()));
    numbers.resize(BYTES, 1);
    let _next = reset();
    numbers.resize(2 * BYTES, 1);
    assert_eq!(numbers.as_slice(), vec![1; 2 * BYTES]);
}
