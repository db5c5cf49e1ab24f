//! Memory and copies under their other names.

use std::ffi::{c_uint, c_void};

use rmm_sys::{
    CuContext, CuDevice, CuDevicePtr, CuMemAdvise, CuMemLocation, CuMemLocationType,
    CuPointerAttribute, CuResult, CuStream,
};

use super::put;

/// `CU_POINTER_ATTRIBUTE_RANGE_START_ADDR` and `CU_POINTER_ATTRIBUTE_RANGE_SIZE`.
const RANGE_START: CuPointerAttribute = CuPointerAttribute(11);
const RANGE_SIZE: CuPointerAttribute = CuPointerAttribute(12);

driver_shims! {
    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuMemHostAlloc(pointer, bytes, 0) }
    }

    fn cuMemGetAddressRange_v2(start: *mut CuDevicePtr, bytes: *mut usize, pointer: CuDevicePtr) {
        let (mut first, mut size) = (CuDevicePtr::NULL, 0_usize);
        for (attribute, target) in
            [(RANGE_START, (&raw mut first).cast()), (RANGE_SIZE, (&raw mut size).cast())]
        {
            // SAFETY: `target` is of the attribute's type.
            let code =
                unsafe { rmm_sim::driver().cuPointerGetAttribute(target, attribute, pointer) };
            if code == CuResult::INVALID_VALUE {
                // No allocation has the address.
                return CuResult::NOT_FOUND;
            }
            if !code.is_success() {
                return code;
            }
        }
        if !start.is_null() {
            // SAFETY: the caller's contract.
            let _ignored = unsafe { put(start, first) };
        }
        if !bytes.is_null() {
            // SAFETY: as above.
            let _ignored = unsafe { put(bytes, size) };
        }
        CuResult::SUCCESS
    }

    fn cuPointerGetAttributes(count: c_uint, attributes: *mut CuPointerAttribute, data: *mut *mut c_void, pointer: CuDevicePtr) {
        if attributes.is_null() || data.is_null() {
            return CuResult::INVALID_VALUE;
        }
        for index in 0..count as usize {
            // SAFETY: the caller has `count` attributes there.
            let attribute = unsafe { attributes.add(index) };
            // SAFETY: and as many pointers.
            let target = unsafe { data.add(index) };
            // SAFETY: it points to one of the attributes.
            let attribute = unsafe { attribute.read() };
            // SAFETY: it points to one of the pointers.
            let target = unsafe { target.read() };
            // SAFETY: each is to a value of its attribute's type. As in the driver, an attribute
            // that the address does not have keeps its value.
            let _ignored = unsafe {
                rmm_sim::driver().cuPointerGetAttribute(target, attribute, pointer)
            };
        }
        CuResult::SUCCESS
    }

    fn cuMemAdvise(pointer: CuDevicePtr, bytes: usize, advice: CuMemAdvise, device: CuDevice) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuMemAdvise_v2(pointer, bytes, advice, location(device)) }
    }

    fn cuMemPrefetchAsync(pointer: CuDevicePtr, bytes: usize, device: CuDevice, stream: CuStream) {
        // SAFETY: the caller's contract.
        unsafe {
            rmm_sim::driver().cuMemPrefetchAsync_v2(pointer, bytes, location(device), 0, stream)
        }
    }

    fn cuMemcpyDtoD_v2(target: CuDevicePtr, source: CuDevicePtr, bytes: usize) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuMemcpy(target, source, bytes) }
    }

    fn cuMemcpyPeer(target: CuDevicePtr, _target_context: CuContext, source: CuDevicePtr, _source_context: CuContext, bytes: usize) {
        // SAFETY: the caller's contract. The addresses say which devices they are of.
        unsafe { rmm_sim::driver().cuMemcpy(target, source, bytes) }
    }

    fn cuMemcpyPeerAsync(target: CuDevicePtr, _target_context: CuContext, source: CuDevicePtr, _source_context: CuContext, bytes: usize, stream: CuStream) {
        // SAFETY: as above.
        unsafe { rmm_sim::driver().cuMemcpyAsync(target, source, bytes, stream) }
    }
}

/// A device, or the host, as calls before CUDA 12.2 pass it.
fn location(device: CuDevice) -> CuMemLocation {
    let kind =
        if device == CuDevice::CPU { CuMemLocationType::HOST } else { CuMemLocationType::DEVICE };
    CuMemLocation { kind, id: if device == CuDevice::CPU { 0 } else { device.0 } }
}
