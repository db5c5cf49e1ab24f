//! Lifetimes of pools and of their memory.

use std::ffi::c_int;

use rmm_conformance::{Failure, ensure};
use rmm_core::Device;
use rmm_sys::{
    CuMemAccessDesc, CuMemAccessFlags, CuMemLocation, CuMemLocationType, CuMemPool, CuResult,
};

use super::raw::{Stream, driver};
use super::raw_pool::{BLOCK, Pool};
use super::stall::Stall;
use super::{answers, in_every_pair, is_refused, waits, works};
use crate::pair::on;
use crate::run::{in_every_environment, in_every_place, in_every_place_unwatched};

/// The default pool of the current device, and the one that is current.
fn pools_of_device() -> Result<(CuMemPool, CuMemPool), Failure> {
    let device = Device::current()?.as_raw();
    let (mut default, mut current) = (CuMemPool::NULL, CuMemPool::NULL);
    // SAFETY: `default` may be written to.
    unsafe { driver().cuDeviceGetDefaultMemPool(&raw mut default, device) }.result()?;
    // SAFETY: `current` may be written to.
    unsafe { driver().cuDeviceGetMemPool(&raw mut current, device) }.result()?;
    Ok((default, current))
}

/// Makes a pool current on the current device.
///
/// # Safety
/// The pool exists.
unsafe fn make_current(pool: CuMemPool) -> Result<CuResult, Failure> {
    let device = Device::current()?.as_raw();
    // SAFETY: the caller's.
    Ok(unsafe { driver().cuDeviceSetMemPool(device, pool) })
}

#[test]
fn memory_outlives_its_pool() {
    in_every_place(|| {
        let (pool, own) = (Pool::made(0)?, Stream::non_blocking()?);
        let block = pool.allocate(BLOCK, &own)?;
        works("destroying the pool", pool.destroy())?;
        works("work on the memory", block.write(&own, 1))?;
        block.holds(&own, 1)?;
        block.free(&own)?;
        works("the wait at the end", own.synchronize())
    });
}

#[test]
fn a_pool_may_be_destroyed_before_frees_are_complete() {
    in_every_environment(|environment| {
        let (pool, own) = (Pool::made(0)?, Stream::non_blocking()?);
        let block = pool.allocate(BLOCK, &own)?;
        works("first work on the memory", block.write(&own, 0))?;
        works("the wait for it", own.synchronize())?;
        let stall = Stall::on(environment.handle(), &own)?;
        works("work on the memory", block.write(&own, 1))?;
        block.free(&own)?;
        works("destroying the pool", pool.destroy())?;
        stall.release()?;
        works("the wait at the end", own.synchronize())
    });
}

#[test]
fn the_default_pool_is_not_destroyed() {
    in_every_place_unwatched(|| {
        let (default, _) = pools_of_device()?;
        // SAFETY: the pool exists; the driver documents that it refuses.
        is_refused("destroying it", unsafe { driver().cuMemPoolDestroy(default) })?;
        answers("the default pool after that", &pools_of_device()?.0, &default)
    });
}

#[test]
fn the_default_pool_is_current_again_when_the_current_one_is_destroyed() {
    in_every_place(|| {
        let (default, before) = pools_of_device()?;
        answers("the current pool at first", &before, &default)?;
        let pool = Pool::made(0)?;
        let made = pool.raw();
        // SAFETY: it exists.
        works("making it current", unsafe { make_current(made) }?)?;
        // Whatever is found, destroying the pool makes the default one current again.
        let current = pools_of_device()?.1;
        let own = Stream::non_blocking()?;
        works("destroying it", pool.destroy())?;
        answers("the current pool while it was", &current, &made)?;
        answers("the current pool after that", &pools_of_device()?.1, &default)?;
        works("the wait at the end", own.synchronize())
    });
}

/// Its documentation says so, and that the caller has waited for all uses.
#[test]
fn freeing_pool_memory_without_a_stream_waits_for_nothing() {
    in_every_environment(|environment| {
        let pool = Pool::that_keeps(0)?;
        let (own, busy) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let block = pool.allocate(BLOCK, &own)?;
        works("the wait for the allocation", own.synchronize())?;
        let stall = Stall::on(environment.handle(), &busy)?;
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { driver().cuMemFree_v2(block.pointer) })?;
        waits("the query of another stream", busy.query())?;
        stall.release()?;
        works("the wait at the end", busy.synchronize())
    });
}

#[test]
fn a_device_uses_its_own_pools_in_any_case() {
    in_every_place_unwatched(|| {
        let pool = Pool::made(0)?;
        let id = c_int::try_from(Device::current()?.ordinal()).map_err(Failure::new)?;
        let mut location = CuMemLocation { kind: CuMemLocationType::DEVICE, id };
        let set = |flags| {
            let access = CuMemAccessDesc { location, flags };
            // SAFETY: the pool exists, and the description may be read.
            unsafe { driver().cuMemPoolSetAccess(pool.raw(), &raw const access, 1) }
        };
        works("giving it access", set(CuMemAccessFlags::READ_WRITE))?;
        let taken = set(CuMemAccessFlags::NONE);
        let mut found = CuMemAccessFlags::NONE;
        // SAFETY: `found` may be written to, the location is read, and the pool exists.
        let code =
            unsafe { driver().cuMemPoolGetAccess(&raw mut found, pool.raw(), &raw mut location) };
        works("asking", code)?;
        answers("its access", &found, &CuMemAccessFlags::READ_WRITE)?;
        answers("taking it away", &taken, &CuResult::INVALID_DEVICE)
    });
}

#[test]
fn a_pool_is_current_on_its_own_device_only() {
    in_every_pair(|pair| {
        let foreign = on(pair.other, || Pool::made(0))?;
        // SAFETY: it exists.
        is_refused("making it current here", unsafe { make_current(foreign.raw()) }?)?;
        let (default, current) = pools_of_device()?;
        answers("the current pool after that", &current, &default)
    });
}

#[test]
fn pools_refuse_what_they_cannot_allocate() {
    in_every_place_unwatched(|| {
        let (pool, own) = (Pool::made(0)?, Stream::non_blocking()?);
        let too_much = pool.allocate(1 << 50, &own).err();
        answers("a PiB", &too_much, &Some(CuResult::OUT_OF_MEMORY))?;
        pool.reserves("after that", 0)
    });
}

#[test]
fn a_pool_holds_no_more_than_its_limit() {
    in_every_place(|| {
        let (pool, own) = (Pool::that_keeps(BLOCK)?, Stream::non_blocking()?);
        let first = pool.allocate(BLOCK, &own)?;
        let more = pool.allocate(BLOCK, &own).err();
        answers("a second block", &more, &Some(CuResult::OUT_OF_MEMORY))?;
        pool.reserves("after that", BLOCK)?;
        first.free(&own)?;
        works("the wait", own.synchronize())?;
        let again = pool.allocate(BLOCK, &own)?;
        again.free(&own)?;
        works("the wait at the end", own.synchronize())
    });
}

#[test]
fn freeing_nothing_in_stream_order_is_nothing() {
    in_every_place_unwatched(|| {
        let own = Stream::non_blocking()?;
        let null = rmm_sys::CuDevicePtr::NULL;
        // SAFETY: nothing was ever allocated there.
        works("freeing it", unsafe { driver().cuMemFreeAsync(null, own.raw()) })
    });
}

#[test]
fn memory_in_stream_order_is_there_for_a_stream_that_waits() {
    in_every_environment(|environment| {
        let (pool, event) = (Pool::that_keeps(0)?, super::raw::Event::new()?);
        let (busy, other) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let warm = pool.allocate(BLOCK, &busy)?;
        works("work on the first allocation", warm.write(&busy, 0))?;
        warm.free(&busy)?;
        works("the wait for the first allocation", busy.synchronize())?;
        let stall = Stall::on(environment.handle(), &busy)?;
        let block = pool.allocate(BLOCK, &busy)?;
        works("the record", event.record(&busy))?;
        works("the wait for the event", other.wait_for(&event))?;
        works("work in the other stream", block.write(&other, 3))?;
        let early = other.query();
        stall.release()?;
        block.holds(&other, 3)?;
        block.free(&other)?;
        works("the wait at the end", other.synchronize())?;
        ensure(early == CuResult::NOT_READY, || format!("the other stream was {early:?}"))
    });
}
