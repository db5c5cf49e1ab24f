//! The current resource of each device.

use std::alloc::Layout;
use std::thread;

use rmm_core::{AnyResource, Device, SynchronousResource};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaMemoryResource, current_device_resource, per_device_resource,
    reset_current_device_resource, reset_per_device_resource, set_current_device_resource,
    set_per_device_resource,
};
use rmm_sim::Machine;

fn is_plain(resource: &AnyResource) -> bool {
    resource.downcast_ref::<CudaMemoryResource>().is_some()
}

fn device(ordinal: usize) -> Device {
    Device::new(ordinal).expect("a device")
}

/// A pool of one device.
fn pool_of(ordinal: usize) -> CudaAsyncMemoryResource {
    let _current = device(ordinal).make_current().expect("current");
    CudaAsyncMemoryResource::new().expect("a pool")
}

#[test]
fn each_device_has_its_own() {
    let _machine = Machine::builder().devices(2).enter();
    let (first, second) = (pool_of(0), pool_of(1));
    assert!(is_plain(&set_per_device_resource(device(0), &first).unwrap()));
    assert!(is_plain(&per_device_resource(device(1)).unwrap()), "the other device's is untouched");
    assert!(is_plain(&set_per_device_resource(device(1), &second).unwrap()));
    assert_eq!(per_device_resource(device(0)).unwrap().downcast_ref(), Some(&first));
    assert_eq!(per_device_resource(device(1)).unwrap().downcast_ref(), Some(&second));
    let _current = device(1).make_current().unwrap();
    assert_eq!(current_device_resource().unwrap().downcast_ref(), Some(&second));
}

#[test]
fn a_reset_returns_the_previous_resource() {
    let _machine = Machine::builder().devices(2).enter();
    let (first, second) = (pool_of(0), pool_of(1));
    set_current_device_resource(&first).unwrap();
    set_per_device_resource(device(1), &second).unwrap();
    assert_eq!(reset_current_device_resource().unwrap().downcast_ref(), Some(&first));
    assert!(is_plain(&current_device_resource().unwrap()));
    assert_eq!(per_device_resource(device(1)).unwrap().downcast_ref(), Some(&second));
    assert_eq!(reset_per_device_resource(device(1)).unwrap().downcast_ref(), Some(&second));
    assert!(
        is_plain(&reset_per_device_resource(device(1)).unwrap()),
        "a reset twice changes nothing"
    );
}

#[test]
fn a_new_machine_does_not_inherit_a_resource() {
    let machine = Machine::new();
    machine.scope(|| set_current_device_resource(&pool_of(0)).map(drop)).unwrap();
    let other = Machine::new();
    assert!(other.scope(|| is_plain(&current_device_resource().unwrap())));
}

#[test]
fn a_missing_device_is_an_error() {
    let other = Machine::builder().devices(2).build();
    let beyond = other.scope(|| device(1));
    let _machine = rmm_sim::enter();
    assert!(per_device_resource(beyond).is_err());
    assert!(set_per_device_resource(beyond, &CudaMemoryResource::new()).is_err());
    assert!(reset_per_device_resource(beyond).is_err());
}

#[test]
fn threads_that_set_and_get_always_use_a_live_resource() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 50;
    let machine = Machine::builder().devices(2).build();
    let layout = Layout::from_size_align(512, 256).unwrap();
    let work = |index: usize| {
        let _entered = machine.enter();
        let device = device(index % 2);
        let _current = device.make_current().unwrap();
        for round in 0..ROUNDS {
            if (index + round).is_multiple_of(3) {
                drop(
                    set_current_device_resource(&CudaAsyncMemoryResource::new().unwrap()).unwrap(),
                );
            } else if round % 7 == 0 {
                drop(reset_current_device_resource().unwrap());
            }
            let resource = current_device_resource().unwrap();
            let memory = resource.allocate_sync(layout).unwrap();
            // SAFETY: allocated above with this layout, and not used.
            unsafe { resource.deallocate_sync(memory, layout) };
        }
    };
    thread::scope(|scope| {
        for index in 0..THREADS {
            scope.spawn(move || work(index));
        }
    });
    let _entered = machine.enter();
    for ordinal in 0..2 {
        drop(reset_per_device_resource(device(ordinal)).unwrap());
    }
    assert_eq!(machine.leaks(), [], "every pool that was replaced is gone");
}
