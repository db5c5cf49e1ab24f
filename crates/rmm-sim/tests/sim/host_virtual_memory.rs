//! Virtual memory of the host: on a NUMA node, used by devices and by the host at one address.

use std::ffi::c_void;
use std::slice;

use rmm_sim::{Kernel, Machine, Schedule, ViolationKind};
use rmm_sys::{
    CuDeviceAttribute, CuDevicePtr, CuMemAccessDesc, CuMemAccessFlags, CuMemAllocationProp,
    CuMemHandle, CuMemHandleType, CuMemLocation, CuMemLocationType, CuResult,
};

use crate::checks::kinds;
use crate::common::{enter, start, stream};
use crate::mapped::{GRANULE, at, grant, map, release, reserve, rights_of, unmap};

const NODE: CuMemLocation = CuMemLocation { kind: CuMemLocationType::HOST_NUMA, id: 0 };

fn create(location: CuMemLocation, types: CuMemHandleType) -> Result<CuMemHandle, CuResult> {
    let properties = CuMemAllocationProp {
        requested_handle_types: types,
        ..CuMemAllocationProp::pinned(location)
    };
    let mut handle = CuMemHandle(0);
    let code = cu!(cuMemCreate(&raw mut handle, GRANULE, &raw const properties, 0));
    code.result().map(|()| handle)
}

fn grant_host(start: CuDevicePtr, bytes: usize, flags: CuMemAccessFlags) -> CuResult {
    let access = CuMemAccessDesc { location: NODE, flags };
    cu!(cuMemSetAccess(start, bytes, &raw const access, 1))
}

/// Mapped memory of the host, for device 0 and the host.
fn mapped() -> CuDevicePtr {
    let (range, handle) = (reserve(GRANULE), create(NODE, CuMemHandleType::NONE).expect("memory"));
    map(range, GRANULE, handle);
    release(handle);
    grant(range, GRANULE);
    assert_eq!(grant_host(range, GRANULE, CuMemAccessFlags::READ_WRITE), CuResult::SUCCESS);
    range
}

fn bytes_at<'a>(start: CuDevicePtr, len: usize) -> &'a mut [u8] {
    let address = usize::try_from(start.0).expect("it fits");
    let start: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: mapped for the host, and used by this test alone while no work runs.
    unsafe { slice::from_raw_parts_mut(start, len) }
}

#[test]
fn both_sides_see_the_same_bytes() {
    let (machine, _here) = start(Schedule::Eager);
    let before = machine.memory_in_use(0);
    let (range, stream) = (mapped(), stream());
    assert_eq!(machine.memory_in_use(0), before, "it is not the device's");
    bytes_at(range, 4096).fill(5);
    let mut found = [0_u8; 4];
    let place: *mut c_void = found.as_mut_ptr().cast();
    ok!(cuMemcpyDtoH_v2(place, at(range, 100), 4));
    assert_eq!(found, [5; 4]);
    ok!(cuMemsetD8Async(at(range, 8), 9, 16, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(bytes_at(range, 32)[7..25], [vec![5; 1], vec![9; 16], vec![5; 1]].concat());
    let kernel = Kernel::new("reads", |_| ()).reads(range, 64);
    machine.launch(stream, kernel).unwrap();
    ok!(cuStreamSynchronize(stream));
    unmap(range, GRANULE);
    machine.assert_no_violations();
    // What is mapped there later begins anew.
    let handle = create(NODE, CuMemHandleType::NONE).expect("memory");
    map(range, GRANULE, handle);
    release(handle);
    assert_eq!(grant_host(range, GRANULE, CuMemAccessFlags::READ_WRITE), CuResult::SUCCESS);
    assert_eq!(bytes_at(range, 32), [0; 32]);
    assert_eq!(rights_of(0, range), Ok(CuMemAccessFlags::NONE));
    let kernel = Kernel::new("reads", |_| ()).reads(range, 64);
    let _refused = machine.launch(stream, kernel);
    let _refused = cu!(cuStreamSynchronize(stream));
    assert_eq!(kinds(&machine), [ViolationKind::NoAccess]);
}

#[test]
fn what_there_is_not_is_refused() {
    let (_machine, _here) = start(Schedule::Eager);
    let other = CuMemLocation { id: 1, ..NODE };
    assert_eq!(create(other, CuMemHandleType::NONE), Err(CuResult::INVALID_VALUE));
    assert_eq!(create(NODE, CuMemHandleType::FABRIC), Err(CuResult::NOT_SUPPORTED));
    let range = crate::mapped::mapped(1);
    let refused = grant_host(range, GRANULE, CuMemAccessFlags::READ_WRITE);
    assert_eq!(refused, CuResult::INVALID_VALUE, "memory of the device");
    let attribute = CuDeviceAttribute::HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    let (_machine, _here) = enter(Machine::builder().attribute(attribute, 0).build());
    assert_eq!(create(NODE, CuMemHandleType::NONE), Err(CuResult::NOT_SUPPORTED));
}
