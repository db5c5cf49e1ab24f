//! The current context, and the calls that need one.

use std::mem::ManuallyDrop;

use rmm_conformance::{CheckResult, DeviceHandle, Environment, Failure};
use rmm_core::Device;
use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuResult};

use super::memory::{free_pinned, pinned};
use super::raw::{Event, Memory, Stream, context, driver, synchronize_context};
use super::raw_pool::Pool;
use super::{answers, in_every_pair, works};
use crate::run::{in_every_environment, in_every_place};

pub(super) fn push(context: CuContext) -> CuResult {
    // SAFETY: contexts of this program stay.
    unsafe { driver().cuCtxPushCurrent_v2(context) }
}

fn pop() -> Result<CuContext, CuResult> {
    let mut popped = CuContext::NULL;
    // SAFETY: `popped` may be written to.
    unsafe { driver().cuCtxPopCurrent_v2(&raw mut popped) }.result().map(|()| popped)
}

fn set(context: CuContext) -> CuResult {
    // SAFETY: contexts of this program stay, and null is none.
    unsafe { driver().cuCtxSetCurrent(context) }
}

fn device() -> Result<CuDevice, CuResult> {
    let mut device = CuDevice(-1);
    // SAFETY: `device` may be written to.
    unsafe { driver().cuCtxGetDevice(&raw mut device) }.result().map(|()| device)
}

/// Runs on a new thread, which has no context.
pub(super) fn without_context(
    environment: &Environment,
    run: impl FnOnce() -> CheckResult + Send,
) -> CheckResult {
    let machine = match environment.handle() {
        DeviceHandle::Software(machine) => Some(machine),
        DeviceHandle::Gpu(_) => None,
    };
    std::thread::scope(|scope| {
        let run = || {
            let _entered = machine.map(rmm_sim::Machine::enter);
            run()
        };
        scope.spawn(run).join().map_err(|_| Failure::new("the thread panicked"))?
    })
}

const NONE: CuResult = CuResult::INVALID_CONTEXT;

#[test]
fn a_new_thread_has_no_context() {
    in_every_environment(|environment| {
        without_context(environment, || {
            answers("the current context", &context()?, &CuContext::NULL)?;
            answers("the device", &device(), &Err(NONE))?;
            answers("popping", &pop(), &Err(NONE))?;
            works("setting none", set(CuContext::NULL))
        })
    });
}

#[test]
fn what_is_made_in_a_context_needs_one() {
    in_every_environment(|environment| {
        without_context(environment, || {
            answers("a stream", &Stream::non_blocking().err(), &Some(NONE))?;
            answers("an event", &Event::new().err(), &Some(NONE))?;
            answers("device memory", &Memory::words().err(), &Some(NONE))?;
            answers("pinned memory", &pinned(1 << 20, 0).err(), &Some(NONE))?;
            answers("waiting for the context", &synchronize_context(), &NONE)?;
            answers("the null stream", &Stream::NULL.query(), &NONE)
        })
    });
}

#[test]
fn what_a_handle_names_needs_no_context() {
    in_every_environment(|environment| {
        let (event, own) = (Event::new()?, Stream::non_blocking()?);
        without_context(environment, || {
            works("recording", event.record(&own))?;
            works("making a stream wait", own.wait_for(&event))?;
            works("waiting for the event", event.synchronize())?;
            works("waiting for the stream", own.synchronize())?;
            works("asking for the event", event.query())?;
            works("asking for the stream", own.query())?;
            own.id()?;
            answers("the current context after that", &context()?, &CuContext::NULL)
        })
    });
}

#[test]
fn the_default_stream_is_none_without_a_context() {
    in_every_environment(|environment| {
        let (event, memory, own) = (Event::new()?, Memory::words()?, Stream::non_blocking()?);
        let pool = Pool::made(0)?;
        let pooled = pool.allocate(1 << 20, &own)?;
        works("the wait for the allocation", own.synchronize())?;
        without_context(environment, || {
            let mut pointer = CuDevicePtr::NULL;
            let null = Stream::NULL.raw();
            // SAFETY: `pointer` may be written to.
            let allocated = unsafe { driver().cuMemAllocAsync(&raw mut pointer, 1 << 20, null) };
            // SAFETY: the memory is the pool's, and no work uses it. It is not freed if the call is
            // refused.
            let freed = unsafe { driver().cuMemFreeAsync(pooled.pointer, null) };
            let of_pool = pool.allocate(1 << 20, &Stream::NULL).err().unwrap_or(CuResult::SUCCESS);
            let found = [
                ("allocating", allocated),
                ("allocating from a pool", of_pool),
                ("freeing", freed),
                ("recording", event.record(&Stream::NULL)),
                ("waiting for an event", Stream::NULL.wait_for(&event)),
                ("filling", Stream::NULL.fill(&memory, 1)),
                ("asking", Stream::NULL.query()),
                ("waiting", Stream::NULL.synchronize()),
                ("its context", Stream::NULL.context().err().unwrap_or(CuResult::SUCCESS)),
                ("its identity", Stream::NULL.id().err().unwrap_or(CuResult::SUCCESS)),
            ];
            answers("on the null stream", &found, &found.map(|(what, _)| (what, NONE)))
        })?;
        pooled.free(&own)?;
        works("the wait at the end", own.synchronize())
    });
}

#[test]
fn streams_give_memory_without_a_context() {
    in_every_environment(|environment| {
        let (pool, own) = (Pool::made(0)?, Stream::non_blocking()?);
        without_context(environment, || {
            let block = pool.allocate(1 << 20, &own)?;
            works("work on it", block.write(&own, 1))?;
            block.free(&own)?;
            let mut pointer = CuDevicePtr::NULL;
            // SAFETY: `pointer` may be written to, and the stream exists.
            let code = unsafe { driver().cuMemAllocAsync(&raw mut pointer, 1 << 20, own.raw()) };
            works("allocating from the current pool", code)?;
            // SAFETY: allocated above in this stream, and not used.
            works("the free", unsafe { driver().cuMemFreeAsync(pointer, own.raw()) })?;
            works("the wait", own.synchronize())
        })
    });
}

#[test]
fn memory_is_freed_without_a_context() {
    in_every_environment(|environment| {
        let (memory, host) = (Memory::words()?, pinned(1 << 20, 0)?);
        let memory = ManuallyDrop::new(memory);
        let host = host.expose_provenance();
        without_context(environment, || {
            // SAFETY: allocated above, and not used again.
            let of_device = unsafe { driver().cuMemFree_v2(memory.pointer) };
            // SAFETY: as above.
            let of_host = unsafe { free_pinned(std::ptr::with_exposed_provenance_mut(host)) };
            answers("on device and host", &[of_device, of_host], &[CuResult::SUCCESS; 2])
        })
    });
}

#[test]
fn contexts_are_a_stack() {
    in_every_place(|| {
        let (own, ordinal) = (context()?, Device::current()?.as_raw());
        works("pushing it again", push(own))?;
        answers("the current context", &context()?, &own)?;
        answers("its device", &device(), &Ok(ordinal))?;
        answers("what is popped", &pop(), &Ok(own))?;
        answers("the current context after that", &context()?, &own)?;
        works("pushing it once more", push(own))?;
        works("setting none", set(CuContext::NULL))?;
        answers("the current context with none set", &context()?, &own)
    });
}

#[test]
fn setting_a_context_replaces_the_one_on_top() {
    in_every_pair(|pair| {
        let home = context()?;
        let other = crate::pair::on(pair.other, context)?;
        works("pushing", push(home))?;
        works("setting", set(other))?;
        let (current, its_device) = (context()?, device());
        let popped = pop();
        answers("the current context", &current, &other)?;
        answers("its device", &its_device, &Ok(pair.other.as_raw()))?;
        answers("what is popped", &popped, &Ok(other))?;
        answers("the current context at the end", &context()?, &home)
    });
}

#[test]
fn a_primary_context_is_one() {
    in_every_place(|| {
        let device = Device::current()?.as_raw();
        let mut retained = CuContext::NULL;
        // SAFETY: `retained` may be written to.
        let code = unsafe { driver().cuDevicePrimaryCtxRetain(&raw mut retained, device) };
        works("retaining it", code)?;
        let own = context()?;
        // SAFETY: retained above; the place has retained it before.
        works("releasing it", unsafe { driver().cuDevicePrimaryCtxRelease_v2(device) })?;
        answers("what was retained", &retained, &own)?;
        answers("the current context after that", &context()?, &own)?;
        works("waiting for it", synchronize_context())
    });
}
