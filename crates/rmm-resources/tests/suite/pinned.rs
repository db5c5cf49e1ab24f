//! Pinned and managed memory.

use rmm_core::{ErrorKind, SynchronousResource};
use rmm_resources::{ManagedMemoryResource, PinnedFlags, PinnedHostMemoryResource};
use rmm_sim::{Fault, Machine};
use rmm_sys::{CuMemoryType, CuPointerAttribute, CuResult};

use crate::short::{MIB, layout, lazy};

/// The kind of memory according to the driver.
fn memory_type(pointer: rmm_core::DevicePtr) -> (CuMemoryType, bool) {
    let driver = rmm_core::current_driver().expect("a driver");
    let (mut kind, mut managed) = (CuMemoryType(0), 0i32);
    let attribute = CuPointerAttribute::MEMORY_TYPE;
    // SAFETY: this attribute is a `c_uint`, which may be written to.
    let code = unsafe { driver.cuPointerGetAttribute((&raw mut kind).cast(), attribute, pointer) };
    assert!(code.is_success());
    let attribute = CuPointerAttribute::IS_MANAGED;
    // SAFETY: this attribute is a `c_int`, which may be written to.
    let code =
        unsafe { driver.cuPointerGetAttribute((&raw mut managed).cast(), attribute, pointer) };
    assert!(code.is_success());
    (kind, managed != 0)
}

fn kind_of(resource: &impl SynchronousResource) -> (CuMemoryType, bool) {
    let asked = layout(1000, 256);
    let pointer = resource.allocate_sync(asked).expect("memory");
    let kind = memory_type(pointer);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(pointer, asked) };
    kind
}

#[test]
fn each_takes_the_memory_that_it_is_named_after() {
    let _machine = lazy().enter();
    assert_eq!(kind_of(&PinnedHostMemoryResource::new()), (CuMemoryType::HOST, false));
    assert!(kind_of(&ManagedMemoryResource::new()).1);
    let all = PinnedHostMemoryResource::with_flags(PinnedFlags::all());
    assert_eq!(all.flags().bits(), 7);
    assert_eq!(kind_of(&all), (CuMemoryType::HOST, false));
}

#[test]
fn memory_that_the_device_cannot_reach_is_freed() {
    let machine = rmm_sim::enter();
    machine.fail(Fault::nth("cuMemHostGetDevicePointer_v2", 1, CuResult::INVALID_VALUE));
    let error = PinnedHostMemoryResource::new().allocate_sync(layout(1000, 256)).unwrap_err();
    assert_eq!((error.kind(), error.requested()), (ErrorKind::Driver, Some(1000)));
    assert_eq!(machine.leaks().len(), 0);
}

#[test]
fn a_full_host_is_out_of_memory() {
    let _machine = Machine::builder().host_memory(8 * MIB).enter();
    let asked = layout(9 * MIB, 256);
    for resource in [
        &PinnedHostMemoryResource::new() as &dyn SynchronousResource,
        &ManagedMemoryResource::new(),
    ] {
        let error = resource.allocate_sync(asked).unwrap_err();
        assert!(error.is_out_of_memory(), "{error}");
        assert_eq!(error.requested(), Some(9 * MIB));
        let pointer = resource.allocate_sync(layout(MIB, 256)).unwrap();
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate_sync(pointer, layout(MIB, 256)) };
    }
}
