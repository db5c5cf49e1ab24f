//! Memory that is ready when the call returns: what is counted, what is refused, what freeing waits
//! for.

use std::ffi::{c_uint, c_void};

use rmm_conformance::{CheckResult, Failure, Kernels, ensure};
use rmm_sys::{
    CuDevicePtr, CuResult, MEM_ATTACH_GLOBAL, MEM_ATTACH_HOST, MEMHOSTALLOC_DEVICEMAP,
    MEMHOSTALLOC_PORTABLE, MEMHOSTALLOC_WRITECOMBINED,
};

use super::raw::{Memory, Stream, driver};
use super::raw_pool::Pool;
use super::{answers, is_refused, works};
use crate::pair::stream;
use crate::run::{in_every_environment, in_every_place, in_every_place_unwatched};

const LARGE: usize = 256 << 20;

/// Free and all bytes of the current device.
fn info() -> Result<(usize, usize), Failure> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both may be written to.
    unsafe { driver().cuMemGetInfo_v2(&raw mut free, &raw mut total) }.result()?;
    Ok((free, total))
}

/// Pinned memory, if the driver allocates it.
pub(super) fn pinned(bytes: usize, flags: c_uint) -> Result<*mut c_void, CuResult> {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: `pointer` may be written to.
    let code = unsafe { driver().cuMemHostAlloc(&raw mut pointer, bytes, flags) };
    code.result().map(|()| pointer)
}

/// Gives pinned memory back.
///
/// # Safety
/// It came from `pinned`, is not freed yet, and no work uses it.
pub(super) unsafe fn free_pinned(pointer: *mut c_void) -> CuResult {
    // SAFETY: the caller's.
    unsafe { driver().cuMemFreeHost(pointer) }
}

/// Managed memory, if the driver allocates it.
pub(super) fn managed(bytes: usize, flags: c_uint) -> Result<CuDevicePtr, CuResult> {
    let mut pointer = CuDevicePtr::NULL;
    // SAFETY: `pointer` may be written to.
    let code = unsafe { driver().cuMemAllocManaged(&raw mut pointer, bytes, flags) };
    code.result().map(|()| pointer)
}

/// Fails unless there were about `expected` free bytes more than there are now: other programs may
/// use the device too.
fn is_near(what: &str, more: usize, less: usize, expected: usize) -> CheckResult {
    let found = more.saturating_sub(less);
    ensure(found.abs_diff(expected) <= LARGE / 8, || {
        format!("{what} {found} bytes ({more} free, and {less}), expected about {expected}")
    })
}

#[test]
fn allocations_count_as_used_until_they_are_freed() {
    in_every_place(|| {
        let (before, total) = info()?;
        let memory = Memory::new(LARGE)?;
        let (during, same) = info()?;
        drop(memory);
        let (after, _) = info()?;
        answers("all bytes", &same, &total)?;
        is_near("allocating took", before, during, LARGE)?;
        is_near("freeing gave", after, during, LARGE)
    });
}

#[test]
fn what_a_pool_reserves_counts_as_used() {
    in_every_place(|| {
        let (pool, own) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
        let (before, _) = info()?;
        let block = pool.allocate(LARGE, &own)?;
        let (during, _) = info()?;
        block.free(&own)?;
        works("the wait", own.synchronize())?;
        let (kept, _) = info()?;
        works("the trim", pool.trim_to(0))?;
        let (after, _) = info()?;
        is_near("allocating took", before, during, LARGE)?;
        is_near("freeing into the pool took", before, kept, LARGE)?;
        is_near("trimming gave", after, kept, LARGE)
    });
}

#[test]
fn memory_that_no_device_has_touched_does_not_count() {
    in_every_place(|| {
        let (before, _) = info()?;
        let (pointer, host) = (managed(LARGE, MEM_ATTACH_GLOBAL)?, pinned(LARGE / 4, 0)?);
        let (during, _) = info()?;
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { driver().cuMemFree_v2(pointer) })?;
        // SAFETY: as above.
        works("the free on the host", unsafe { free_pinned(host) })?;
        is_near("managed and pinned memory took", before, during, 0)
    });
}

#[test]
fn device_memory_is_aligned() {
    in_every_place(|| {
        let blocks = [1, 3, 300, 5000].map(Memory::new);
        for block in blocks {
            answers("an address modulo 256", &(block?.pointer.0 % 256), &0)?;
        }
        Ok(())
    });
}

#[test]
fn device_memory_is_refused_where_it_makes_no_sense() {
    in_every_place_unwatched(|| {
        let no_bytes = Memory::new(0).err();
        answers("no bytes", &no_bytes, &Some(CuResult::INVALID_VALUE))?;
        answers("a PiB", &Memory::new(1 << 50).err(), &Some(CuResult::OUT_OF_MEMORY))
    });
}

#[test]
fn freeing_nothing_is_nothing() {
    in_every_place_unwatched(|| {
        // SAFETY: nothing was ever allocated there.
        works("freeing null", unsafe { driver().cuMemFree_v2(CuDevicePtr::NULL) })
    });
}

#[test]
fn freeing_nothing_on_the_host_is_nothing() {
    in_every_place_unwatched(|| {
        // SAFETY: nothing was ever allocated there.
        works("freeing null", unsafe { driver().cuMemFreeHost(std::ptr::null_mut()) })
    });
}

#[test]
fn managed_memory_is_refused_where_it_makes_no_sense() {
    in_every_place_unwatched(|| {
        let refused = Some(CuResult::INVALID_VALUE);
        answers("no bytes", &managed(0, MEM_ATTACH_GLOBAL).err(), &refused)?;
        let both = MEM_ATTACH_GLOBAL | MEM_ATTACH_HOST;
        for (what, flags) in [("no flag", 0), ("both flags", both), ("an unknown flag", 1 << 8)] {
            answers(what, &managed(1 << 20, flags).err(), &refused)?;
        }
        Ok(())
    });
}

#[test]
fn pinned_memory_has_no_flags_that_do_not_exist() {
    in_every_place_unwatched(|| {
        let refused = Some(CuResult::INVALID_VALUE);
        answers("an unknown flag", &pinned(1 << 20, 1 << 8).err(), &refused)
    });
}

fn device_address(pointer: *mut c_void) -> Result<CuDevicePtr, CuResult> {
    let mut device = CuDevicePtr::NULL;
    // SAFETY: `device` may be written to; the memory is pinned.
    let code = unsafe { driver().cuMemHostGetDevicePointer_v2(&raw mut device, pointer, 0) };
    code.result().map(|()| device)
}

#[test]
fn pinned_memory_has_one_address() {
    in_every_place(|| {
        for flags in [
            0,
            MEMHOSTALLOC_PORTABLE,
            MEMHOSTALLOC_DEVICEMAP,
            MEMHOSTALLOC_PORTABLE | MEMHOSTALLOC_DEVICEMAP,
        ] {
            let pointer = pinned(1 << 20, flags)?;
            let device = device_address(pointer);
            // SAFETY: allocated above, and no work uses it.
            works("the free", unsafe { free_pinned(pointer) })?;
            let what = format!("the device's address of memory with flags {flags}");
            answers(&what, &device, &Ok(CuDevicePtr(pointer.addr() as u64)))?;
        }
        Ok(())
    });
}

#[test]
fn write_combined_memory_has_an_address_on_the_device() {
    in_every_place(|| {
        let pointer = pinned(1 << 20, MEMHOSTALLOC_WRITECOMBINED)?;
        let device = device_address(pointer);
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { free_pinned(pointer) })?;
        let found = device.map(|device| device != CuDevicePtr::NULL);
        answers("whether there is one", &found, &Ok(true))
    });
}

#[test]
fn there_are_no_flags_for_an_address_on_the_device() {
    in_every_place_unwatched(|| {
        let pointer = pinned(1 << 20, 0)?;
        let mut device = CuDevicePtr::NULL;
        // SAFETY: `device` may be written to; the memory is pinned.
        let code = unsafe { driver().cuMemHostGetDevicePointer_v2(&raw mut device, pointer, 1) };
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { free_pinned(pointer) })?;
        is_refused("a flag", code)
    });
}

/// Its documentation says that it may, and programs rely on it.
#[test]
fn freeing_device_memory_waits_for_the_device() {
    in_every_environment(|environment| {
        let kernels = Kernels::load(environment.handle())?;
        let (memory, other, own) = (Memory::words()?, Memory::words()?, stream()?);
        // SAFETY: the memory holds a word, and freeing it waits for the device.
        unsafe { kernels.fill(own.as_stream_ref(), memory.pointer, 1, 7, 100_000_000) }?;
        let event = own.record_event()?;
        drop(other);
        let is_complete = event.is_complete()?;
        own.synchronize()?;
        answers("whether earlier work is complete after the free", &is_complete, &true)?;
        memory.holds(7)
    });
}
