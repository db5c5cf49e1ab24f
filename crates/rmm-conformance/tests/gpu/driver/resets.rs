//! A primary context that is reset: what ends with it, what does not, and the context that comes
//! after it.

use std::ffi::{c_int, c_uint, c_void};

use rmm_conformance::{CheckResult, DeviceHandle, Failure, ensure};
use rmm_core::Device;
use rmm_sys::{
    CuContext, CuDevice, CuDevicePtr, CuMemAccessDesc, CuMemAccessFlags, CuMemAllocationProp,
    CuMemHandle, CuMemLocation, CuMemLocationType, CuMemPoolAttribute, CuPointerAttribute,
    CuResult,
};

use super::alone::{in_a_process_of_its_own, leave};
use super::failures::lose;
use super::raw::{Event, Memory, Stream, context, driver, synchronize_context};
use super::raw_pool::{BLOCK, Pool};
use super::{all, answers, is_one_of, report, works};

fn device() -> Result<CuDevice, Failure> {
    Ok(Device::current()?.as_raw())
}

/// Resets the primary context of a device. What the probe made in it is forgotten by the probe.
fn reset(device: CuDevice) -> CheckResult {
    // SAFETY: nothing else in this process uses the device.
    works("the reset", unsafe { driver().cuDevicePrimaryCtxReset_v2(device) })
}

fn retain(device: CuDevice) -> Result<CuContext, CuResult> {
    let mut context = CuContext::NULL;
    // SAFETY: `context` may be written to.
    let code = unsafe { driver().cuDevicePrimaryCtxRetain(&raw mut context, device) };
    code.result().map(|()| context)
}

fn is_active(device: CuDevice) -> Result<bool, CuResult> {
    let (mut flags, mut active): (c_uint, c_int) = (0, -1);
    // SAFETY: both may be written to.
    let code =
        unsafe { driver().cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active) };
    code.result().map(|()| active == 1)
}

fn id_of(context: CuContext) -> Result<u64, CuResult> {
    let mut id = 0;
    // SAFETY: `id` may be written to; null is the current context.
    unsafe { driver().cuCtxGetId(context, &raw mut id) }.result().map(|()| id)
}

/// Resets the primary context and makes the next one current.
fn renew() -> Result<CuContext, Failure> {
    let device = device()?;
    reset(device)?;
    let context = retain(device)?;
    // SAFETY: retained above.
    works("making the next one current", unsafe { driver().cuCtxSetCurrent(context) })?;
    Ok(context)
}

fn free_bytes() -> Result<usize, CuResult> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both may be written to.
    unsafe { driver().cuMemGetInfo_v2(&raw mut free, &raw mut total) }.result().map(|()| free)
}

/// What the driver says of an address, as far as that it knows it.
fn is_known(at: CuDevicePtr) -> CuResult {
    let mut ordinal: c_int = -1;
    let place = (&raw mut ordinal).cast::<c_void>();
    // SAFETY: the attribute is a `c_int`.
    unsafe { driver().cuPointerGetAttribute(place, CuPointerAttribute::DEVICE_ORDINAL, at) }
}

#[test]
fn a_reset_leaves_no_context_until_the_next_retain() {
    in_a_process_of_its_own(
        "driver::resets::a_reset_leaves_no_context_until_the_next_retain",
        |_| {
            let (own, device) = (context()?, device()?);
            answers("whether it was active", &is_active(device), &Ok(true))?;
            reset(device)?;
            let gone = [CuResult::CONTEXT_IS_DESTROYED, CuResult::INVALID_CONTEXT];
            let refused = synchronize_context();
            report("waiting for a context that was reset", &refused);
            report("the current context after a reset", &(context()? == own));
            let claims = all([
                answers("whether it is active", &is_active(device), &Ok(false)),
                is_one_of("waiting for it", &refused, &gone),
            ]);
            let next = retain(device)?;
            report("whether the next context has the same handle", &(next == own));
            claims?;
            answers("whether it is active again", &is_active(device), &Ok(true))?;
            // SAFETY: retained above.
            works("making it current", unsafe { driver().cuCtxSetCurrent(next) })?;
            works("waiting for it", synchronize_context())
        },
    );
}

#[test]
fn the_context_after_a_reset_has_an_id_of_its_own() {
    in_a_process_of_its_own(
        "driver::resets::the_context_after_a_reset_has_an_id_of_its_own",
        |_| {
            let own = context()?;
            let before = id_of(CuContext::NULL)?;
            answers("the id by its handle", &id_of(own), &Ok(before))?;
            let next = renew()?;
            let after = id_of(next)?;
            report("the ids before and after a reset", &(before, after, next == own));
            answers("the id of the current context", &id_of(CuContext::NULL), &Ok(after))?;
            ensure(before != after, || format!("both contexts have the id {before}"))
        },
    );
}

#[test]
fn ids_stay_while_a_context_does() {
    in_a_process_of_its_own("driver::resets::ids_stay_while_a_context_does", |_| {
        let (device, before) = (device()?, id_of(CuContext::NULL)?);
        let again = retain(device)?;
        answers("the id after a retain", &id_of(again), &Ok(before))?;
        // SAFETY: retained above.
        works("the release", unsafe { driver().cuDevicePrimaryCtxRelease_v2(device) })?;
        answers("the id after the release", &id_of(CuContext::NULL), &Ok(before))
    });
}

#[test]
fn a_thread_that_had_the_context_has_the_next_one() {
    in_a_process_of_its_own(
        "driver::resets::a_thread_that_had_the_context_has_the_next_one",
        |_| {
            let (own, device) = (context()?, device()?);
            reset(device)?;
            let next = retain(device)?;
            report("whether the next context has the same handle", &(next == own));
            if next != own {
                return Ok(());
            }
            answers("the current context", &context()?, &next)?;
            works("waiting for it", synchronize_context())?;
            Memory::words()?.holds(0)
        },
    );
}

#[test]
fn a_reset_frees_the_memory_of_the_context() {
    in_a_process_of_its_own("driver::resets::a_reset_frees_the_memory_of_the_context", |_| {
        renew()?;
        let before = free_bytes()?;
        let (memory, pinned) = (Memory::new(BLOCK)?, super::memory::pinned(1 << 20, 0)?);
        let (own, event) = (Stream::non_blocking()?, Event::new()?);
        let left = free_bytes()?;
        ensure(left + BLOCK <= before, || format!("{before} bytes, then {left}"))?;
        let (at, host) = (memory.pointer, CuDevicePtr(pinned.addr() as u64));
        // They end with the context, and their handles may soon be others'.
        leave((memory, own, event));
        renew()?;
        let after = free_bytes()?;
        report("free bytes before, with memory, and after a reset", &(before, left, after));
        all([
            ensure(after > left, || format!("{left} bytes were free, then {after}")),
            answers("its address", &is_known(at), &CuResult::INVALID_VALUE),
            answers("that of pinned memory", &is_known(host), &CuResult::INVALID_VALUE),
        ])
    });
}

#[test]
fn a_reset_heals_no_context_in_which_a_kernel_has_failed() {
    in_a_process_of_its_own(
        "driver::resets::a_reset_heals_no_context_in_which_a_kernel_has_failed",
        |environment| {
            let device = device()?;
            lose(environment)?;
            reset(device)?;
            answers("whether it is active", &is_active(device), &Ok(false))?;
            answers("the next context", &retain(device), &Err(CuResult::ILLEGAL_ADDRESS))
        },
    );
}

#[test]
fn retains_outlive_a_reset() {
    in_a_process_of_its_own("driver::resets::retains_outlive_a_reset", |_| {
        let device = device()?;
        retain(device)?;
        reset(device)?;
        // SAFETY: retained above; the place has retained it before.
        works("a release after it", unsafe { driver().cuDevicePrimaryCtxRelease_v2(device) })?;
        answers("whether it is active", &is_active(device), &Ok(false))?;
        retain(device)?;
        // SAFETY: as above.
        works("a release later", unsafe { driver().cuDevicePrimaryCtxRelease_v2(device) })?;
        answers("whether the next one is active", &is_active(device), &Ok(true))?;
        // SAFETY: as above.
        works("the last release", unsafe { driver().cuDevicePrimaryCtxRelease_v2(device) })?;
        answers("whether it is active then", &is_active(device), &Ok(false))
    });
}

#[test]
fn memory_of_pools_outlives_a_reset() {
    in_a_process_of_its_own("driver::resets::memory_of_pools_outlives_a_reset", |_| {
        let (pool, own) = (Pool::made(0)?, Stream::non_blocking()?);
        let block = pool.allocate(BLOCK, &own)?;
        works("the write", block.write(&own, 9))?;
        works("the wait", own.synchronize())?;
        // It ends with the context.
        leave(own);
        renew()?;
        let known = is_known(block.pointer);
        let used = pool.get(CuMemPoolAttribute::USED_MEM_CURRENT);
        report("pool memory after a reset: its address, what is used", &(known, used));
        works("its address", known)?;
        answers("what is used", &used, &Ok(BLOCK as u64))?;
        let next = Stream::non_blocking()?;
        block.holds(&next, 9)?;
        block.free(&next)?;
        works("the wait", next.synchronize())?;
        works("the end of the pool", pool.destroy())?;
        Ok(())
    });
}

#[test]
fn virtual_memory_outlives_a_reset() {
    in_a_process_of_its_own("driver::resets::virtual_memory_outlives_a_reset", |_| {
        let (at, handle, location) = map_some()?;
        let stream = Stream::LEGACY;
        // SAFETY: the memory is longer than a word.
        let code = unsafe { driver().cuMemsetD32Async(at, 9, 1, stream.raw()) };
        works("the write", code)?;
        works("the wait", stream.synchronize())?;
        renew()?;
        let mut rights = 0;
        // SAFETY: `rights` may be written to, and the location read.
        let code = unsafe { driver().cuMemGetAccess(&raw mut rights, &raw const location, at) };
        report("mapped memory after a reset: its rights", &(code, rights));
        works("its rights", code)?;
        answers("the rights", &rights, &u64::from(CuMemAccessFlags::READ_WRITE.0))?;
        let mut word = [0_u8; 4];
        // SAFETY: both are so long.
        let code = unsafe { driver().cuMemcpyDtoH_v2(word.as_mut_ptr().cast(), at, 4) };
        works("reading it", code)?;
        answers("the word", &u32::from_ne_bytes(word), &9)?;
        // SAFETY: no work uses it.
        works("unmapping", unsafe { driver().cuMemUnmap(at, SIZE) })?;
        // SAFETY: it is not used again.
        works("releasing", unsafe { driver().cuMemRelease(handle) })?;
        // SAFETY: as above.
        works("freeing the addresses", unsafe { driver().cuMemAddressFree(at, SIZE) })?;
        Ok(())
    });
}

const SIZE: usize = 2 << 20;

/// Physical memory of the device, mapped where the device may use it.
fn map_some() -> Result<(CuDevicePtr, CuMemHandle, CuMemLocation), Failure> {
    let id = device()?.0;
    let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id };
    let properties = CuMemAllocationProp::pinned(location);
    let access = CuMemAccessDesc { location, flags: CuMemAccessFlags::READ_WRITE };
    let (mut at, mut handle) = (CuDevicePtr::NULL, CuMemHandle(0));
    // SAFETY: `at` may be written to.
    let code = unsafe { driver().cuMemAddressReserve(&raw mut at, SIZE, 0, CuDevicePtr::NULL, 0) };
    code.result()?;
    // SAFETY: `handle` may be written to, and the properties read.
    let code = unsafe { driver().cuMemCreate(&raw mut handle, SIZE, &raw const properties, 0) };
    code.result()?;
    // SAFETY: the addresses are reserved and the memory is as long.
    unsafe { driver().cuMemMap(at, SIZE, 0, handle, 0) }.result()?;
    // SAFETY: the description may be read, and all is mapped.
    unsafe { driver().cuMemSetAccess(at, SIZE, &raw const access, 1) }.result()?;
    Ok((at, handle, location))
}

#[test]
fn another_device_is_left_alone_by_a_reset() {
    in_a_process_of_its_own(
        "driver::resets::another_device_is_left_alone_by_a_reset",
        |environment| {
            let Some(other) = environment.another_device()? else {
                report("a reset beside another device", &"this machine has one device");
                return Ok(());
            };
            // Made in the other device's context, which is current meanwhile.
            let guard = other.make_current()?;
            let (memory, before) = (Memory::words()?, id_of(CuContext::NULL)?);
            drop(guard);
            reset(device()?)?;
            let _guard = other.make_current()?;
            answers("the other context's id", &id_of(CuContext::NULL), &Ok(before))?;
            works("a fill", Stream::LEGACY.fill(&memory, 3))?;
            works("the wait", synchronize_context())?;
            memory.holds(3)?;
            if let DeviceHandle::Software(machine) = environment.handle() {
                machine.assert_no_violations();
            }
            Ok(())
        },
    );
}
