//! Attributes that the driver reports for managed memory that was prefetched.

use std::ffi::{c_int, c_void};

use rmm_conformance::{CheckResult, Failure};
use rmm_core::Device;
use rmm_sys::{
    CuDevice, CuDeviceAttribute, CuDevicePtr, CuMemLocation, CuMemLocationType,
    CuMemRangeAttribute, CuPointerAttribute, CuResult, MEM_ATTACH_GLOBAL,
};

use super::memory::managed;
use super::raw::{Memory, Stream, driver};
use super::{answers, is_refused, report, works};
use crate::run::in_every_place;

const BYTES: usize = 4 << 20;

fn attribute(of: CuMemRangeAttribute, at: CuDevicePtr, bytes: usize) -> Result<c_int, CuResult> {
    let mut value: c_int = 77;
    let place = (&raw mut value).cast::<c_void>();
    // SAFETY: the place takes four bytes, as each attribute asked for here is.
    let code = unsafe { driver().cuMemRangeGetAttribute(place, size_of::<c_int>(), of, at, bytes) };
    code.result().map(|()| value)
}

fn last(at: CuDevicePtr, bytes: usize) -> Result<CuDevice, CuResult> {
    attribute(CuMemRangeAttribute::LAST_PREFETCH_LOCATION, at, bytes).map(CuDevice)
}

fn prefetch(at: CuDevicePtr, bytes: usize, location: CuMemLocation, own: &Stream) -> CheckResult {
    // SAFETY: the memory is managed, longer than that, and outlives the work.
    let code = unsafe { driver().cuMemPrefetchAsync_v2(at, bytes, location, 0, own.raw()) };
    works("a prefetch", code)
}

/// Whether the device can be prefetched to, by this driver.
fn has_them() -> Result<bool, Failure> {
    let moves = Device::current()?.attribute(CuDeviceAttribute::CONCURRENT_MANAGED_ACCESS)? != 0;
    let is_known = driver().missing().iter().all(|it| it.name != "cuMemPrefetchAsync_v2");
    Ok(moves && is_known)
}

#[test]
fn a_range_tells_where_it_was_last_asked_to_be() {
    in_every_place(|| {
        if !has_them()? {
            return Ok(());
        }
        let id = Device::current()?.as_raw().0;
        let home = CuMemLocation { kind: CuMemLocationType::DEVICE, id };
        let host = CuMemLocation { kind: CuMemLocationType::HOST, id: 0 };
        let (memory, own) = (managed(BYTES, MEM_ATTACH_GLOBAL)?, Stream::non_blocking()?);
        let half = CuDevicePtr(memory.0 + BYTES as u64 / 2);
        answers("before any prefetch", &last(memory, BYTES), &Ok(CuDevice::INVALID))?;
        prefetch(memory, BYTES, home, &own)?;
        answers("after one to the device", &last(memory, BYTES), &Ok(CuDevice(id)))?;
        prefetch(half, BYTES / 2, host, &own)?;
        answers("the first half", &last(memory, BYTES / 2), &Ok(CuDevice(id)))?;
        answers("the second half", &last(half, BYTES / 2), &Ok(CuDevice::CPU))?;
        answers("both halves", &last(memory, BYTES), &Ok(CuDevice::INVALID))?;
        let kind = attribute(CuMemRangeAttribute::LAST_PREFETCH_LOCATION_TYPE, memory, BYTES / 2);
        answers("the kind of place", &kind, &Ok(1))?;
        let kind = attribute(CuMemRangeAttribute::LAST_PREFETCH_LOCATION_TYPE, half, 1);
        answers("the kind of the host", &kind, &Ok(2))?;
        let number = attribute(CuMemRangeAttribute::LAST_PREFETCH_LOCATION_ID, memory, BYTES / 2);
        answers("the number of the place", &number, &Ok(id))?;
        works("the wait", own.synchronize())?;
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { driver().cuMemFree_v2(memory) })
    });
}

#[test]
fn memory_that_does_not_move_has_no_last_place() {
    in_every_place(|| {
        let memory = Memory::new(BYTES)?;
        let code = last(memory.pointer, BYTES).err().unwrap_or(CuResult::SUCCESS);
        is_refused("device memory", code)
    });
}

#[test]
fn device_memory_tells_whether_it_can_be_decompressed_to() {
    in_every_place(|| {
        let memory = Memory::new(BYTES)?;
        let mut capable: c_int = 0;
        let place = (&raw mut capable).cast::<c_void>();
        let attribute = CuPointerAttribute::IS_HW_DECOMPRESS_CAPABLE;
        // SAFETY: the attribute is a `bool`, which is no longer than the place.
        let code = unsafe { driver().cuPointerGetAttribute(place, attribute, memory.pointer) };
        let engine = CuDeviceAttribute::MEM_DECOMPRESS_ALGORITHM_MASK;
        let formats = Device::current()?.attribute(engine);
        report(
            "device memory for decompression, and the engine's formats",
            &(code, capable, &formats),
        );
        if formats.is_err() {
            // An older driver.
            return Ok(());
        }
        // An H200, which has no such engine, reports the capability nevertheless.
        works("asking", code)
    });
}
