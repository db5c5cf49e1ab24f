//! Calls of virtual memory management in one line each.

use std::ffi::c_ulonglong;

use rmm_sys::{
    CuDevicePtr, CuMemAccessDesc, CuMemAccessFlags, CuMemAllocationProp, CuMemHandle,
    CuMemLocation, CuMemLocationType, CuResult,
};

pub(crate) const GRANULE: usize = 2 << 20;

pub(crate) fn at(pointer: CuDevicePtr, offset: usize) -> CuDevicePtr {
    CuDevicePtr(pointer.0 + offset as u64)
}

fn device(id: i32) -> CuMemLocation {
    CuMemLocation { kind: CuMemLocationType::DEVICE, id }
}

pub(crate) fn on_device(id: i32) -> CuMemAllocationProp {
    CuMemAllocationProp::pinned(device(id))
}

pub(crate) fn reserve(bytes: usize) -> CuDevicePtr {
    let mut pointer = CuDevicePtr::NULL;
    ok!(cuMemAddressReserve(&raw mut pointer, bytes, 0, CuDevicePtr::NULL, 0));
    pointer
}

pub(crate) fn try_create(bytes: usize) -> Result<CuMemHandle, CuResult> {
    let (mut handle, properties) = (CuMemHandle(0), on_device(0));
    let code = cu!(cuMemCreate(&raw mut handle, bytes, &raw const properties, 0));
    code.result().map(|()| handle)
}

pub(crate) fn create(bytes: usize) -> CuMemHandle {
    try_create(bytes).expect("there is memory")
}

pub(crate) fn release(handle: CuMemHandle) {
    ok!(cuMemRelease(handle));
}

pub(crate) fn map(start: CuDevicePtr, bytes: usize, handle: CuMemHandle) {
    ok!(cuMemMap(start, bytes, 0, handle, 0));
}

pub(crate) fn unmap(start: CuDevicePtr, bytes: usize) {
    ok!(cuMemUnmap(start, bytes));
}

pub(crate) fn grant_to(id: i32, start: CuDevicePtr, bytes: usize, flags: CuMemAccessFlags) {
    let access = CuMemAccessDesc { location: device(id), flags };
    ok!(cuMemSetAccess(start, bytes, &raw const access, 1));
}

/// Gives device 0 read and write access.
pub(crate) fn grant(start: CuDevicePtr, bytes: usize) {
    grant_to(0, start, bytes, CuMemAccessFlags::READ_WRITE);
}

pub(crate) fn rights_of(id: i32, pointer: CuDevicePtr) -> Result<CuMemAccessFlags, CuResult> {
    let (mut flags, location): (c_ulonglong, _) = (77, device(id));
    let code = cu!(cuMemGetAccess(&raw mut flags, &raw const location, pointer));
    code.result().map(|()| CuMemAccessFlags(u32::try_from(flags).expect("flags are small")))
}

/// Mapped memory with read and write access for device 0.
pub(crate) fn put(start: CuDevicePtr, bytes: usize, handle: CuMemHandle) {
    map(start, bytes, handle);
    grant(start, bytes);
}

/// A number of granules, mapped one by one and referenced by the mappings only.
pub(crate) fn mapped(granules: usize) -> CuDevicePtr {
    let range = reserve(granules * GRANULE);
    for index in 0..granules {
        let handle = create(GRANULE);
        put(at(range, index * GRANULE), GRANULE, handle);
        release(handle);
    }
    range
}
