//! Attributes that the driver reports for an address.

use std::ffi::{c_int, c_uint, c_void};

use rmm_conformance::{CheckResult, Failure};
use rmm_core::Device;
use rmm_sys::{
    CuContext, CuDevicePtr, CuMemPool, CuMemoryType, CuPointerAttribute, CuResult,
    MEM_ATTACH_GLOBAL,
};

use super::memory::{free_pinned, managed, pinned};
use super::raw::{Memory, Stream, context, driver};
use super::raw_pool::Pool;
use super::{answers, works};
use crate::run::{in_every_place, in_every_place_unwatched};

const BYTES: usize = 4 << 20;
const REFUSED: CuResult = CuResult::INVALID_VALUE;

/// An attribute whose value is a `T`.
///
/// # Safety
/// It is.
unsafe fn attribute<T>(
    of: CuDevicePtr,
    attribute: CuPointerAttribute,
    before: T,
) -> Result<T, CuResult> {
    let mut value = before;
    let place = (&raw mut value).cast::<c_void>();
    // SAFETY: the place takes what the attribute is, by the caller.
    unsafe { driver().cuPointerGetAttribute(place, attribute, of) }.result().map(|()| value)
}

/// The attributes of most addresses.
#[derive(PartialEq, Eq, Debug)]
struct Attributes {
    kind: Result<CuMemoryType, CuResult>,
    is_managed: Result<c_int, CuResult>,
    ordinal: Result<c_int, CuResult>,
    on_device: Result<CuDevicePtr, CuResult>,
    on_host: Result<u64, CuResult>,
}

impl Attributes {
    fn of(pointer: CuDevicePtr) -> Self {
        use CuPointerAttribute as A;
        // SAFETY: a `c_uint`.
        let kind = unsafe { attribute::<c_uint>(pointer, A::MEMORY_TYPE, 0) };
        // SAFETY: a `c_int`, by some tables a `bool`, which is shorter.
        let is_managed = unsafe { attribute::<c_int>(pointer, A::IS_MANAGED, 0) };
        // SAFETY: a `c_int`.
        let ordinal = unsafe { attribute::<c_int>(pointer, A::DEVICE_ORDINAL, -1) };
        // SAFETY: a `CuDevicePtr`.
        let on_device = unsafe { attribute(pointer, A::DEVICE_POINTER, CuDevicePtr::NULL) };
        // SAFETY: a pointer.
        let on_host =
            unsafe { attribute(pointer, A::HOST_POINTER, std::ptr::null_mut::<c_void>()) };
        Self {
            kind: kind.map(CuMemoryType),
            is_managed,
            ordinal,
            on_device,
            on_host: on_host.map(|pointer| pointer.addr() as u64),
        }
    }
}

/// Fails unless the start of some memory, and an address inside of it, are what they should be.
fn has_attributes(
    what: &str,
    start: CuDevicePtr,
    (kind, is_managed): (CuMemoryType, bool),
    is_on_host: bool,
) -> CheckResult {
    let ordinal = c_int::try_from(Device::current()?.ordinal()).map_err(Failure::new)?;
    for pointer in [start, CuDevicePtr(start.0 + 12345)] {
        let expected = Attributes {
            kind: Ok(kind),
            is_managed: Ok(c_int::from(is_managed)),
            ordinal: Ok(ordinal),
            on_device: Ok(pointer),
            on_host: if is_on_host { Ok(pointer.0) } else { Err(REFUSED) },
        };
        answers(what, &Attributes::of(pointer), &expected)?;
    }
    Ok(())
}

/// Where the allocation of an address starts, and its bytes.
fn range(pointer: CuDevicePtr) -> Result<(CuDevicePtr, usize), CuResult> {
    use CuPointerAttribute as A;
    // SAFETY: a `CuDevicePtr`.
    let start = unsafe { attribute(pointer, A::RANGE_START_ADDR, CuDevicePtr::NULL) }?;
    // SAFETY: a `usize`.
    let bytes = unsafe { attribute(pointer, A::RANGE_SIZE, 0_usize) }?;
    Ok((start, bytes))
}

#[test]
fn device_memory_is_told() {
    in_every_place(|| {
        let memory = Memory::new(BYTES)?;
        has_attributes("device memory", memory.pointer, (CuMemoryType::DEVICE, false), false)
    });
}

#[test]
fn managed_memory_is_told() {
    in_every_place(|| {
        let pointer = managed(BYTES, MEM_ATTACH_GLOBAL)?;
        let outcome = has_attributes("managed memory", pointer, (CuMemoryType::DEVICE, true), true);
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { driver().cuMemFree_v2(pointer) })?;
        outcome
    });
}

#[test]
fn pinned_memory_is_told() {
    in_every_place(|| {
        let pointer = pinned(BYTES, 0)?;
        let on_device = CuDevicePtr(pointer.addr() as u64);
        let outcome = has_attributes("pinned memory", on_device, (CuMemoryType::HOST, false), true);
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { free_pinned(pointer) })?;
        outcome
    });
}

#[test]
fn memory_of_a_pool_is_told() {
    in_every_place(|| {
        let (pool, own) = (Pool::made(0)?, Stream::non_blocking()?);
        let block = pool.allocate(BYTES, &own)?;
        works("the wait", own.synchronize())?;
        let checked =
            has_attributes("pool memory", block.pointer, (CuMemoryType::DEVICE, false), false);
        let handle = CuPointerAttribute::MEMPOOL_HANDLE;
        // SAFETY: a `CuMemPool`.
        let from = unsafe { attribute(block.pointer, handle, CuMemPool::NULL) };
        block.free(&own)?;
        works("the wait at the end", own.synchronize())?;
        checked?;
        answers("the pool that it is from", &from, &Ok(pool.raw()))
    });
}

#[test]
fn the_range_of_an_allocation_is_as_asked_for() {
    in_every_place(|| {
        for bytes in [BYTES, 1000] {
            let memory = Memory::new(bytes)?;
            let inside = CuDevicePtr(memory.pointer.0 + 100);
            let what = format!("the range of {bytes} bytes");
            answers(&what, &range(inside), &Ok((memory.pointer, bytes)))?;
        }
        Ok(())
    });
}

#[test]
fn the_range_of_managed_and_pinned_memory_is_as_asked_for() {
    in_every_place(|| {
        let (pointer, host) = (managed(BYTES, MEM_ATTACH_GLOBAL)?, pinned(BYTES, 0)?);
        let of_managed = range(CuDevicePtr(pointer.0 + 100));
        let on_device = CuDevicePtr(host.addr() as u64);
        let of_pinned = range(CuDevicePtr(on_device.0 + 100));
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { driver().cuMemFree_v2(pointer) })?;
        // SAFETY: as above.
        works("the free on the host", unsafe { free_pinned(host) })?;
        answers("the range of managed memory", &of_managed, &Ok((pointer, BYTES)))?;
        answers("the range of pinned memory", &of_pinned, &Ok((on_device, BYTES)))
    });
}

#[test]
fn the_range_of_pool_memory_is_as_asked_for() {
    in_every_place(|| {
        let (pool, own) = (Pool::made(0)?, Stream::non_blocking()?);
        let block = pool.allocate(BYTES, &own)?;
        works("the wait", own.synchronize())?;
        let (start, found) = (block.pointer, range(CuDevicePtr(block.pointer.0 + 100)));
        block.free(&own)?;
        works("the wait at the end", own.synchronize())?;
        answers("the range", &found, &Ok((start, BYTES)))
    });
}

#[test]
fn the_context_of_device_memory_is_the_one_it_was_made_in() {
    in_every_place(|| {
        let (memory, own) = (Memory::new(BYTES)?, context()?);
        // SAFETY: a `CuContext`.
        let found =
            unsafe { attribute(memory.pointer, CuPointerAttribute::CONTEXT, CuContext::NULL) };
        answers("its context", &found, &Ok(own))
    });
}

#[test]
fn device_memory_of_its_own_is_of_no_pool() {
    in_every_place(|| {
        let memory = Memory::new(BYTES)?;
        let other = CuMemPool::from_raw(std::ptr::without_provenance_mut(1));
        let handle = CuPointerAttribute::MEMPOOL_HANDLE;
        // SAFETY: a `CuMemPool`.
        let found = unsafe { attribute(memory.pointer, handle, other) };
        answers("its pool", &found, &Ok(CuMemPool::NULL))
    });
}

#[test]
fn addresses_of_the_host_that_the_driver_does_not_know_are_refused() {
    in_every_place_unwatched(|| {
        let own = Box::new([0u8; 64]);
        let pointer = CuDevicePtr(std::ptr::from_ref(&*own).addr() as u64);
        let found = Attributes::of(pointer);
        answers("the kind of pageable memory", &found.kind, &Err(REFUSED))?;
        answers("the kind of null", &Attributes::of(CuDevicePtr::NULL).kind, &Err(REFUSED))
    });
}
