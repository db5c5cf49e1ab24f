//! Addresses and memory apart: what is reserved, made, mapped, and made accessible. Where a device
//! has none of it, all of it is not supported, and no more is asked.

use std::ffi::{c_int, c_ulonglong};

use rmm_conformance::{CheckResult, Failure, ensure};
use rmm_core::{Device, DevicePtr};
use rmm_sys::{
    CuDeviceAttribute, CuIpcMemHandle, CuMemAccessDesc, CuMemAccessFlags, CuMemAllocationProp,
    CuMemGranularity, CuMemHandle, CuMemLocation, CuMemLocationType, CuResult,
};

use super::raw::{Stream, driver};
use super::{all, answers, is_refused, works};
use crate::run::{in_every_place, in_every_place_unwatched};

fn home() -> Result<CuMemLocation, Failure> {
    let id = c_int::try_from(Device::current()?.ordinal()).map_err(Failure::new)?;
    Ok(CuMemLocation { kind: CuMemLocationType::DEVICE, id })
}

fn granularity() -> Result<usize, CuResult> {
    let location = home().map_err(|_| CuResult::UNKNOWN)?;
    let properties = CuMemAllocationProp::pinned(location);
    let mut bytes = 0;
    // SAFETY: `bytes` may be written to, and the properties read.
    let code = unsafe {
        driver().cuMemGetAllocationGranularity(
            &raw mut bytes,
            &raw const properties,
            CuMemGranularity::MINIMUM,
        )
    };
    code.result().map(|()| bytes)
}

/// Reserved addresses, released when this is dropped.
struct Range {
    /// # Invariant
    /// Reserved by `new` with `bytes` bytes; nothing is mapped there when this is dropped.
    start: DevicePtr,
    bytes: usize,
}

impl Range {
    fn new(bytes: usize) -> Result<Self, CuResult> {
        let mut start = DevicePtr::NULL;
        // SAFETY: `start` may be written to.
        let code =
            unsafe { driver().cuMemAddressReserve(&raw mut start, bytes, 0, DevicePtr::NULL, 0) };
        code.result().map(|()| Self { start, bytes })
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: reserved by `new`. The driver refuses while something is mapped there.
        let _ignored = unsafe { driver().cuMemAddressFree(self.start, self.bytes) };
    }
}

/// Memory without an address, released when this is dropped.
struct Physical {
    /// # Invariant
    /// Made by `new`, and not released.
    handle: CuMemHandle,
}

impl Physical {
    fn new(bytes: usize) -> Result<Self, CuResult> {
        let location = home().map_err(|_| CuResult::UNKNOWN)?;
        let properties = CuMemAllocationProp::pinned(location);
        let mut handle = CuMemHandle(0);
        // SAFETY: `handle` may be written to, and the properties read.
        let code =
            unsafe { driver().cuMemCreate(&raw mut handle, bytes, &raw const properties, 0) };
        code.result().map(|()| Self { handle })
    }

    fn map(&self, at: DevicePtr, bytes: usize, offset: usize) -> CuResult {
        // SAFETY: the memory exists. What else is wrong, the driver finds out.
        unsafe { driver().cuMemMap(at, bytes, offset, self.handle, 0) }
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and not used again. What is mapped stays until it is unmapped.
        let _ignored = unsafe { driver().cuMemRelease(self.handle) };
    }
}

fn unmap(at: DevicePtr, bytes: usize) -> CuResult {
    // SAFETY: no work uses the addresses. Whether they are a whole mapping, the driver finds out.
    unsafe { driver().cuMemUnmap(at, bytes) }
}

fn make_accessible(at: DevicePtr, bytes: usize) -> Result<CuResult, Failure> {
    let access = CuMemAccessDesc { location: home()?, flags: CuMemAccessFlags::READ_WRITE };
    // SAFETY: the description may be read. Whether all is mapped, the driver finds out.
    Ok(unsafe { driver().cuMemSetAccess(at, bytes, &raw const access, 1) })
}

fn access(at: DevicePtr) -> Result<c_ulonglong, CuResult> {
    let location = home().map_err(|_| CuResult::UNKNOWN)?;
    let mut flags = c_ulonglong::MAX;
    // SAFETY: `flags` may be written to, and the location read.
    unsafe { driver().cuMemGetAccess(&raw mut flags, &raw const location, at) }
        .result()
        .map(|()| flags)
}

/// Sets a word, in the order of the stream.
fn write(own: &Stream, at: DevicePtr, value: u32) -> CuResult {
    // SAFETY: probes write where memory is mapped and accessible, and wait before they unmap it.
    unsafe { driver().cuMemsetD32Async(at, value, 1, own.raw()) }
}

/// Fails unless there is this word.
fn holds(own: &Stream, at: DevicePtr, expected: u32) -> CheckResult {
    let mut word = [0u8; 4];
    // SAFETY: probes read where memory is mapped and accessible; the wait below ends the copy.
    let code = unsafe {
        driver().cuMemcpyDtoHAsync_v2(word.as_mut_ptr().cast(), at, word.len(), own.raw())
    };
    works("the copy of a word", code)?;
    works("the wait for it", own.synchronize())?;
    answers("the word in memory", &u32::from_ne_bytes(word), &expected)
}

/// Runs a probe with the granularity, or looks that the device has none of it.
fn with_granularity(probe: impl Fn(usize) -> CheckResult) -> CheckResult {
    let supported = CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    if Device::current()?.attribute(supported)? == 1 {
        return probe(granularity()?);
    }
    let none = CuResult::NOT_SUPPORTED;
    answers("the granularity", &granularity(), &Err(none))?;
    answers("reserving", &Range::new(2 << 20).err(), &Some(none))?;
    answers("making memory", &Physical::new(2 << 20).err(), &Some(none))
}

#[test]
fn the_granularity_is_a_power_of_two() {
    in_every_place(|| {
        with_granularity(|unit| {
            ensure(unit.is_power_of_two() && unit >= 4096, || format!("it is {unit}"))?;
            let range = Range::new(4 * unit)?;
            answers("the start modulo it", &(range.start.0 % unit as u64), &0)
        })
    });
}

#[test]
fn memory_is_used_through_each_of_its_mappings() {
    in_every_place(|| {
        with_granularity(|unit| {
            let (range, memory, own) =
                (Range::new(4 * unit)?, Physical::new(2 * unit)?, Stream::non_blocking()?);
            let (first, second) = (range.start, DevicePtr(range.start.0 + 2 * unit as u64));
            works("the first mapping", memory.map(first, 2 * unit, 0))?;
            works("its access", make_accessible(first, 2 * unit)?)?;
            works("the second mapping", memory.map(second, 2 * unit, 0))?;
            works("its access", make_accessible(second, 2 * unit)?)?;
            let last = 2 * unit as u64 - 4;
            works("writing through the first", write(&own, DevicePtr(first.0 + last), 1))?;
            holds(&own, DevicePtr(second.0 + last), 1)?;
            works("writing through the second", write(&own, second, 2))?;
            holds(&own, first, 2)?;
            works("unmapping the first", unmap(first, 2 * unit))?;
            holds(&own, second, 2)?;
            works("unmapping the second", unmap(second, 2 * unit))
        })
    });
}

#[test]
fn mapped_memory_outlives_its_handle() {
    in_every_place(|| {
        with_granularity(|unit| {
            let (range, memory, own) =
                (Range::new(unit)?, Physical::new(unit)?, Stream::non_blocking()?);
            works("the mapping", memory.map(range.start, unit, 0))?;
            works("its access", make_accessible(range.start, unit)?)?;
            drop(memory);
            works("writing", write(&own, range.start, 1))?;
            holds(&own, range.start, 1)?;
            works("unmapping", unmap(range.start, unit))
        })
    });
}

/// As a pool falls asleep and wakes up again before it has returned the memory.
#[test]
fn unmapped_memory_keeps_its_contents_while_it_is_retained() {
    in_every_place(|| {
        with_granularity(|unit| {
            let (range, memory, own) =
                (Range::new(unit)?, Physical::new(unit)?, Stream::non_blocking()?);
            works("the mapping", memory.map(range.start, unit, 0))?;
            works("its access", make_accessible(range.start, unit)?)?;
            drop(memory);
            works("writing", write(&own, range.start, 7))?;
            holds(&own, range.start, 7)?;
            let mut handle = CuMemHandle(0);
            let start = usize::try_from(range.start.0).map_err(Failure::new)?;
            let start = std::ptr::without_provenance_mut(start);
            // SAFETY: `handle` may be written to; the address is only a name.
            let code = unsafe { driver().cuMemRetainAllocationHandle(&raw mut handle, start) };
            works("retaining", code)?;
            let retained = Physical { handle };
            works("unmapping", unmap(range.start, unit))?;
            works("mapping again", retained.map(range.start, unit, 0))?;
            works("its access", make_accessible(range.start, unit)?)?;
            drop(retained);
            holds(&own, range.start, 7)?;
            works("unmapping at the end", unmap(range.start, unit))
        })
    });
}

#[test]
fn a_new_mapping_is_accessible_to_nobody() {
    in_every_place(|| {
        with_granularity(|unit| {
            let (range, memory) = (Range::new(unit)?, Physical::new(unit)?);
            let all = CuMemAccessFlags::READ_WRITE.0.into();
            for round in ["the first mapping", "the next mapping"] {
                works(round, memory.map(range.start, unit, 0))?;
                answers("the access at first", &access(range.start), &Ok(0))?;
                works("giving it", make_accessible(range.start, unit)?)?;
                answers("the access then", &access(range.start), &Ok(all))?;
                works("unmapping", unmap(range.start, unit))?;
            }
            Ok(())
        })
    });
}

#[test]
fn neighbouring_mappings_are_one_range() {
    in_every_place(|| {
        with_granularity(|unit| {
            let (range, own) = (Range::new(2 * unit)?, Stream::non_blocking()?);
            let (first, second) = (Physical::new(unit)?, Physical::new(unit)?);
            let middle = DevicePtr(range.start.0 + unit as u64);
            works("the first mapping", first.map(range.start, unit, 0))?;
            works("the second mapping", second.map(middle, unit, 0))?;
            works("the access of both", make_accessible(range.start, 2 * unit)?)?;
            let across = DevicePtr(middle.0 - 4);
            // SAFETY: both words are mapped and accessible, and the wait in `holds` comes before
            // the end.
            works("writing across", unsafe { driver().cuMemsetD32Async(across, 5, 2, own.raw()) })?;
            holds(&own, across, 5)?;
            holds(&own, middle, 5)?;
            works("unmapping both", unmap(range.start, 2 * unit))
        })
    });
}

#[test]
fn an_address_names_the_memory_that_is_mapped_there() {
    in_every_place(|| {
        with_granularity(|unit| {
            let (range, memory) = (Range::new(unit)?, Physical::new(unit)?);
            works("the mapping", memory.map(range.start, unit, 0))?;
            let mut retained = CuMemHandle(0);
            let inside = usize::try_from(range.start.0 + 12345).map_err(Failure::new)?;
            let inside = std::ptr::without_provenance_mut(inside);
            // SAFETY: `retained` may be written to; the address is only a name.
            let code = unsafe { driver().cuMemRetainAllocationHandle(&raw mut retained, inside) };
            works("retaining", code)?;
            // SAFETY: retained above.
            works("releasing", unsafe { driver().cuMemRelease(retained) })?;
            works("unmapping", unmap(range.start, unit))?;
            answers("what was retained", &retained, &memory.handle)
        })
    });
}

#[test]
fn what_is_mapped_is_not_mapped_over() {
    in_every_place_unwatched(|| {
        with_granularity(|unit| {
            let (range, memory) = (Range::new(2 * unit)?, Physical::new(2 * unit)?);
            works("the mapping", memory.map(range.start, 2 * unit, 0))?;
            let other = Physical::new(unit)?;
            let code = other.map(range.start, unit, 0);
            works("unmapping", unmap(range.start, 2 * unit))?;
            is_refused("mapping what is mapped", code)
        })
    });
}

#[test]
fn access_is_given_to_mapped_memory_only() {
    in_every_place_unwatched(|| {
        with_granularity(|unit| {
            let (range, memory) = (Range::new(2 * unit)?, Physical::new(unit)?);
            let before = make_accessible(range.start, unit)?;
            works("the mapping", memory.map(range.start, unit, 0))?;
            let beyond = make_accessible(range.start, 2 * unit)?;
            works("unmapping", unmap(range.start, unit))?;
            is_refused("access to what is not mapped", before)?;
            is_refused("access to what is mapped, and more", beyond)
        })
    });
}

#[test]
fn a_part_of_a_mapping_is_not_unmapped() {
    in_every_place_unwatched(|| {
        with_granularity(|unit| {
            let (range, memory) = (Range::new(2 * unit)?, Physical::new(2 * unit)?);
            works("the mapping", memory.map(range.start, 2 * unit, 0))?;
            is_refused("unmapping its first half", unmap(range.start, unit))?;
            works("unmapping all", unmap(range.start, 2 * unit))
        })
    });
}

#[test]
fn unmapping_where_nothing_is_mapped_changes_nothing() {
    in_every_place_unwatched(|| {
        with_granularity(|unit| {
            let range = Range::new(unit)?;
            works("unmapping addresses without memory", unmap(range.start, unit))
        })
    });
}

#[test]
fn what_is_no_multiple_of_the_granularity_is_refused() {
    in_every_place_unwatched(|| {
        with_granularity(|unit| {
            let refused = Some(CuResult::INVALID_VALUE);
            all([
                answers("no addresses", &Range::new(0).err(), &refused),
                answers("memory of no bytes", &Physical::new(0).err(), &refused),
                answers("memory of half a unit", &Physical::new(unit / 2).err(), &refused),
            ])
        })
    });
}

#[test]
fn half_a_unit_is_not_mapped() {
    in_every_place_unwatched(|| {
        with_granularity(|unit| {
            let (range, memory) = (Range::new(2 * unit)?, Physical::new(2 * unit)?);
            let code = memory.map(range.start, unit / 2, 0);
            answers("mapping half a unit", &code, &CuResult::NOT_SUPPORTED)
        })
    });
}

#[test]
fn nothing_is_mapped_at_half_a_unit() {
    in_every_place_unwatched(|| {
        with_granularity(|unit| {
            let (range, memory) = (Range::new(2 * unit)?, Physical::new(unit)?);
            let crooked = DevicePtr(range.start.0 + unit as u64 / 2);
            is_refused("mapping at half a unit", memory.map(crooked, unit, 0))
        })
    });
}

#[test]
fn no_more_is_mapped_than_there_is() {
    in_every_place_unwatched(|| {
        with_granularity(|unit| {
            let (range, memory) = (Range::new(4 * unit)?, Physical::new(2 * unit)?);
            let code = memory.map(range.start, 4 * unit, 0);
            answers("mapping more than there is", &code, &CuResult::NOT_SUPPORTED)
        })
    });
}

#[test]
fn memory_is_mapped_from_its_start() {
    in_every_place_unwatched(|| {
        with_granularity(|unit| {
            let (range, memory) = (Range::new(unit)?, Physical::new(2 * unit)?);
            let code = memory.map(range.start, unit, unit);
            if code.is_success() {
                works("unmapping", unmap(range.start, unit))?;
            }
            answers("mapping it from its middle", &code, &CuResult::NOT_SUPPORTED)
        })
    });
}

/// As the programming guide says of virtual memory.
#[test]
fn mapped_memory_has_no_legacy_ipc_handle() {
    in_every_place_unwatched(|| {
        with_granularity(|unit| {
            let (range, memory) = (Range::new(unit)?, Physical::new(unit)?);
            works("the mapping", memory.map(range.start, unit, 0))?;
            works("its access", make_accessible(range.start, unit)?)?;
            let mut handle = CuIpcMemHandle { reserved: [0; 64] };
            // SAFETY: `handle` may be written to.
            let code = unsafe { driver().cuIpcGetMemHandle(&raw mut handle, range.start) };
            works("unmapping", unmap(range.start, unit))?;
            is_refused("a handle", code)
        })
    });
}
