//! Prefetching, and the cases in which it does nothing.

use rmm_core::{CudaStream, Device, DevicePtr, PrefetchTarget, driver_in_context, prefetch};
use rmm_sim::{Fault, Machine};
use rmm_sys::{CuDeviceAttribute, CuResult, MEM_ATTACH_GLOBAL};

use crate::world::calls_of;

const BYTES: usize = 4096;
const FUNCTION: &str = "cuMemPrefetchAsync_v2";

/// Managed memory, freed with the machine.
fn managed() -> DevicePtr {
    let (driver, _) = driver_in_context().expect("a driver");
    let mut pointer = DevicePtr::NULL;
    // SAFETY: `pointer` may be written to.
    let code = unsafe { driver.cuMemAllocManaged(&raw mut pointer, BYTES, MEM_ATTACH_GLOBAL) };
    assert_eq!(code, CuResult::SUCCESS);
    pointer
}

fn targets() -> [PrefetchTarget; 2] {
    [PrefetchTarget::Host, PrefetchTarget::Device(Device::current().expect("a device"))]
}

#[test]
fn managed_memory_is_prefetched_to_host_and_device() {
    let machine = rmm_sim::enter();
    let (stream, memory) = (CudaStream::new().unwrap(), managed());
    for target in targets() {
        prefetch(memory, BYTES, target, &stream).unwrap();
    }
    assert_eq!(calls_of(&machine, FUNCTION), 2);
    stream.synchronize().unwrap();
}

// RMM #2014: devices without concurrent managed access refuse the call.
#[test]
fn prefetch_skips_unsupported_devices_and_zero_bytes() {
    let machine =
        Machine::builder().attribute(CuDeviceAttribute::CONCURRENT_MANAGED_ACCESS, 0).build();
    let _entered = machine.enter();
    let (stream, memory) = (CudaStream::new().unwrap(), managed());
    for target in targets() {
        prefetch(memory, BYTES, target, &stream).unwrap();
    }
    assert_eq!(calls_of(&machine, FUNCTION), 0);

    let able = Machine::new();
    let _entered = able.enter();
    let stream = CudaStream::new().unwrap();
    prefetch(DevicePtr::NULL, 0, PrefetchTarget::Host, &stream).unwrap();
    assert_eq!(calls_of(&able, FUNCTION), 0);
}

#[test]
fn memory_that_is_not_managed_stays_where_it_is() {
    let machine = rmm_sim::enter();
    let stream = CudaStream::new().unwrap();
    prefetch(DevicePtr(4096), BYTES, PrefetchTarget::Host, &stream).unwrap();
    assert_eq!(
        calls_of(&machine, FUNCTION),
        1,
        "the driver was asked, and its refusal is no error"
    );
}

#[test]
fn other_driver_errors_are_returned() {
    let machine = rmm_sim::enter();
    let (stream, memory) = (CudaStream::new().unwrap(), managed());
    machine.fail(Fault::nth(FUNCTION, 1, CuResult::ILLEGAL_ADDRESS));
    let error = prefetch(memory, BYTES, PrefetchTarget::Host, &stream).unwrap_err();
    assert_eq!((error.code(), error.origin()), (Some(CuResult::ILLEGAL_ADDRESS), FUNCTION));
}

#[test]
fn an_old_driver_does_not_support_it() {
    let _machine = Machine::builder().driver_version(12010).enter();
    let (stream, memory) = (CudaStream::new().unwrap(), managed());
    let error = prefetch(memory, BYTES, PrefetchTarget::Host, &stream).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
}
