//! A context in which a kernel has failed: what its calls return, and which calls work all the
//! same.

use std::ffi::{c_int, c_void};

use rmm_conformance::{CheckResult, Environment, Kernels};
use rmm_core::{CudaStream, Device};
use rmm_sys::{CuContext, CuDevice, CuDeviceAttribute, CuDevicePtr, CuResult, CuStream};

use super::alone::{in_a_process_of_its_own, leave};
use super::raw::{Event, Memory, Stream, context, driver, synchronize_context};
use super::raw_pool::{BLOCK, Pool};
use super::{all, answers, is_one_of, report, works};

const LOST: CuResult = CuResult::ILLEGAL_ADDRESS;

/// Loses the context by a kernel that fails.
pub(super) fn lose(environment: &Environment) -> CheckResult {
    let kernels = Kernels::load(environment.handle())?;
    let stream = CudaStream::new()?;
    // SAFETY: this process probes what becomes of the context, and nothing else.
    unsafe { kernels.fail(stream.as_stream_ref()) }?;
    // SAFETY: the stream exists.
    let code = unsafe { driver().cuStreamSynchronize(stream.as_raw()) };
    // Their ends would call a driver that refuses.
    leave((kernels, stream));
    answers("the wait for the kernel", &code, &LOST)
}

#[test]
fn every_call_in_a_lost_context_returns_its_failure() {
    in_a_process_of_its_own(
        "driver::failures::every_call_in_a_lost_context_returns_its_failure",
        |environment| {
            let (memory, own, event) = (Memory::words()?, Stream::non_blocking()?, Event::new()?);
            works("the record", event.record(&own))?;
            lose(environment)?;
            let word = memory.pointer;
            let mut pinned = std::ptr::null_mut::<c_void>();
            let (mut free, mut total) = (0, 0);
            let lost = |what: &str, code: CuResult| answers(what, &code, &LOST);
            let claims = all([
                lost("waiting for the context", synchronize_context()),
                lost("waiting once more", synchronize_context()),
                lost("an allocation", Memory::new(1 << 20).err().unwrap_or(CuResult::SUCCESS)),
                // SAFETY: `pinned` may be written to.
                lost("pinned memory", unsafe {
                    driver().cuMemHostAlloc(&raw mut pinned, 1 << 20, 0)
                }),
                // SAFETY: both may be written to.
                lost("the free memory", unsafe {
                    driver().cuMemGetInfo_v2(&raw mut free, &raw mut total)
                }),
                lost("a stream", Stream::non_blocking().err().unwrap_or(CuResult::SUCCESS)),
                lost("an event", Event::new().err().unwrap_or(CuResult::SUCCESS)),
                lost("a fill", own.fill(&memory, 1)),
                lost("the query of a stream", own.query()),
                lost("the wait for a stream", own.synchronize()),
                lost("the query of an event", event.query()),
                lost("the wait for an event", event.synchronize()),
                lost("a record", event.record(&own)),
                lost("a wait of a stream", own.wait_for(&event)),
                // SAFETY: the memory is not used again.
                lost("a free", unsafe { driver().cuMemFree_v2(word) }),
            ]);
            // SAFETY: neither is used again.
            report("the end of a stream", &unsafe { driver().cuStreamDestroy_v2(own.raw()) });
            leave((memory, own, event));
            claims
        },
    );
}

#[test]
fn calls_that_touch_no_context_outlive_its_loss() {
    in_a_process_of_its_own(
        "driver::failures::calls_that_touch_no_context_outlive_its_loss",
        |environment| {
            let (own, device) = (context()?, Device::current()?.as_raw());
            lose(environment)?;
            let (mut count, mut value, mut current) = (0, 0, CuDevice(-1));
            let mut popped = CuContext::NULL;
            all([
                // SAFETY: `count` may be written to.
                works("the count of devices", unsafe { driver().cuDeviceGetCount(&raw mut count) }),
                // SAFETY: `value` may be written to.
                works("an attribute", unsafe {
                    let attribute = CuDeviceAttribute::MULTIPROCESSOR_COUNT;
                    driver().cuDeviceGetAttribute(&raw mut value, attribute, device)
                }),
                answers("the current context", &context()?, &own),
                // SAFETY: `current` may be written to.
                works("the current device", unsafe { driver().cuCtxGetDevice(&raw mut current) }),
                // SAFETY: the context is there, if lost.
                works("pushing it", unsafe { driver().cuCtxPushCurrent_v2(own) }),
                // SAFETY: `popped` may be written to.
                works("popping it", unsafe { driver().cuCtxPopCurrent_v2(&raw mut popped) }),
                // SAFETY: the context is there, if lost.
                works("setting it", unsafe { driver().cuCtxSetCurrent(own) }),
            ])
        },
    );
}

#[test]
fn who_asks_for_a_lost_context_may_get_it() {
    in_a_process_of_its_own(
        "driver::failures::who_asks_for_a_lost_context_may_get_it",
        |environment| {
            let (own, device) = (context()?, Device::current()?.as_raw());
            lose(environment)?;
            let (mut retained, mut flags, mut active): (_, _, c_int) = (CuContext::NULL, 0, -1);
            // SAFETY: `retained` may be written to.
            let code = unsafe { driver().cuDevicePrimaryCtxRetain(&raw mut retained, device) };
            report("retaining a lost context", &(code, retained == own));
            is_one_of("retaining it", &code, &[CuResult::SUCCESS, LOST])?;
            // SAFETY: both may be written to.
            let code = unsafe {
                driver().cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active)
            };
            works("its state", code)?;
            answers("whether it is active", &active, &1)
        },
    );
}

/// Undocumented: printed by a run on a device.
#[test]
fn pools_and_virtual_memory_may_be_lost_too() {
    in_a_process_of_its_own(
        "driver::failures::pools_and_virtual_memory_may_be_lost_too",
        |environment| {
            let (pool, own) = (Pool::made(0)?, Stream::non_blocking()?);
            let block = pool.allocate(BLOCK, &own)?;
            works("the wait", own.synchronize())?;
            lose(environment)?;
            // SAFETY: the memory is not used again.
            let freed = unsafe { driver().cuMemFreeAsync(block.pointer, own.raw()) };
            answers("a free in stream order", &freed, &LOST)?;
            let mut at = CuDevicePtr::NULL;
            // SAFETY: `at` may be written to.
            let reserved = unsafe {
                driver().cuMemAddressReserve(&raw mut at, 2 << 20, 0, CuDevicePtr::NULL, 0)
            };
            report("reserving addresses", &reserved);
            is_one_of("reserving addresses", &reserved, &[CuResult::SUCCESS, LOST])?;
            let trimmed = pool.trim_to(0);
            report("trimming a pool", &trimmed);
            is_one_of("trimming a pool", &trimmed, &[CuResult::SUCCESS, LOST])?;
            let destroyed = pool.destroy();
            report("destroying a pool", &destroyed);
            leave(own);
            is_one_of("destroying a pool", &destroyed, &[CuResult::SUCCESS, LOST])
        },
    );
}

#[test]
fn work_behind_a_kernel_that_failed_is_never_seen() {
    in_a_process_of_its_own(
        "driver::failures::work_behind_a_kernel_that_failed_is_never_seen",
        |environment| {
            let pinned = super::memory::pinned(4096, 0)?;
            let word = pinned.cast::<u32>();
            // SAFETY: the memory is longer than a word, and no work uses it yet.
            unsafe { word.write_volatile(7) };
            lose(environment)?;
            // SAFETY: the memory is longer than a word.
            let code = unsafe {
                let at = CuDevicePtr(word.addr() as u64);
                driver().cuMemsetD32Async(at, 1, 1, CuStream::LEGACY)
            };
            answers("the fill", &code, &LOST)?;
            // SAFETY: pinned memory is the host's too, and the work was refused.
            let found = unsafe { word.read_volatile() };
            answers("the word", &found, &7)
        },
    );
}
