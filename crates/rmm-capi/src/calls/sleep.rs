//! Pools that return all physical memory to the device, and keep their addresses.

use std::ffi::c_void;

use rmm_adaptors::{Contents, PoolMemoryResource, SleepOptions};
use rmm_core::{AnySynchronousResource, DevicePtr, HostAccessible};

use crate::handle::failure::Failure;
use crate::handle::find::pool_in;
use crate::handle::guard;
use crate::handle::library::clear_number;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::sized::{self, Sized};
use crate::handle::status::Status;

/// The contents of the pool's blocks are lost.
pub const RMM_RS_SLEEP_DISCARD: u32 = 0;
/// They are copied to host memory, and back when the pool wakes up.
pub const RMM_RS_SLEEP_TO_HOST: u32 = 1;

/// How a pool falls asleep. All zeros, but for the size, are the defaults.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SleepSettings {
    /// `sizeof(rmm_rs_sleep_options)`, set by the caller.
    pub size: usize,
    /// What becomes of the contents: one of `RMM_RS_SLEEP_*`.
    pub contents: u32,
    /// 1 to wait for pending work. With 0 the pool refuses to fall asleep while there is some.
    pub wait_for_work: u32,
    /// The host memory for the contents, in blocks of 64 MiB; null for `cudaHostAlloc`, which takes
    /// 422 ms for each GiB. A pool over pinned memory that is there before costs nothing then.
    pub host_memory: *const ResourceHandle,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers and a pointer.
unsafe impl Sized for SleepSettings {}

/// The options of the caller.
///
/// # Safety
/// `options` is null or a structure as large as it says, and its `host_memory` null or live.
unsafe fn read(options: *const SleepSettings) -> Result<SleepOptions<'static>, Failure> {
    if options.is_null() {
        return Ok(SleepOptions::new(Contents::Discard));
    }
    // SAFETY: it is as large as it says, by the caller's contract.
    let raw = unsafe { sized::read("rmm_rs_sleep_options", options) }?;
    let contents = match raw.contents {
        RMM_RS_SLEEP_DISCARD => Contents::Discard,
        RMM_RS_SLEEP_TO_HOST => Contents::ToHost,
        other => return Err(Failure::invalid(format!("{other} says nothing of the contents"))),
    };
    let options = SleepOptions::new(contents).wait_for_work(raw.wait_for_work != 0);
    if raw.host_memory.is_null() {
        return Ok(options);
    }
    // SAFETY: it is live, by the caller's contract.
    let host = unsafe { borrow(raw.host_memory) }?;
    let memory = AnySynchronousResource::<()>::from(host.any.clone()).try_widen::<HostAccessible>();
    let memory = memory.map_err(|_| Failure::invalid("the host cannot use the host memory"))?;
    Ok(options.host_memory(memory))
}

/// Stores the bytes, unless there is no place for them.
///
/// # Safety
/// `out` is null or may be written to.
unsafe fn report(out: *mut u64, bytes: u64) {
    if !out.is_null() {
        // SAFETY: the caller's contract.
        unsafe { out.write(bytes) };
    }
}

/// Returns all physical memory of the pool, or of the first one below the resource, to the device,
/// and keeps its addresses: `rmm_rs_pool_wake` makes them usable again. Stores the bytes in
/// `released`, unless it is null. `options` may be null.
///
/// The caller promises that from this call until the pool is awake no work uses its memory and no
/// thread dereferences it. With `RMM_RS_SLEEP_DISCARD` what the blocks hold afterwards is
/// undefined.
///
/// `RMM_RS_NOT_READY` if work is pending and is not waited for, or the pool is not awake;
/// `RMM_RS_REFUSED` if the pool is not over `rmm_rs_virtual_resource_new`, or a graph may use its
/// memory. After a failure the pool is awake, unless `rmm_rs_pool_is_asleep` says otherwise. While
/// it sleeps, allocating fails, and frees are accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_sleep(
    resource: *const ResourceHandle,
    options: *const SleepSettings,
    released: *mut u64,
) -> Status {
    // SAFETY: by the clause on pointers, `released` is null or valid for a write.
    unsafe { clear_number(released) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let pool = pool_in(unsafe { borrow(resource) }?)?;
        // SAFETY: by the clauses on structures and handles, for `options` and its `host_memory`.
        let options = unsafe { read(options) }?;
        // SAFETY: the clause on sleep is the contract of `sleep_with`.
        let bytes = unsafe { pool.sleep_with(options) }?;
        // SAFETY: by the clause on pointers, `released` is null or valid for a write.
        unsafe { report(released, bytes) };
        Ok(())
    })
}

/// Wakes the pool: maps memory at all of its addresses, and copies contents back that were kept.
/// Stores the bytes in `mapped`, unless it is null: 0 if the pool was awake. Work that is enqueued
/// afterwards may use the memory. After a failure, such as `RMM_RS_OUT_OF_MEMORY`, the pool sleeps
/// as before, and this can be called again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_wake(
    resource: *const ResourceHandle,
    mapped: *mut u64,
) -> Status {
    // SAFETY: by the clause on pointers, `mapped` is null or valid for a write.
    unsafe { clear_number(mapped) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let bytes = pool_in(unsafe { borrow(resource) }?)?.wake()?;
        // SAFETY: by the clause on pointers, `mapped` is null or valid for a write.
        unsafe { report(mapped, bytes) };
        Ok(())
    })
}

/// Whether the pool sleeps, or a thread is putting it to sleep or waking it. False if there is no
/// pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_is_asleep(resource: *const ResourceHandle) -> bool {
    guard::value(false, || {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let pool = unsafe { borrow(resource) }.and_then(|resource| pool_in(resource));
        pool.is_ok_and(PoolMemoryResource::is_asleep)
    })
}

/// Whether the pool, or the first one below the resource, can sleep: it is over memory that is
/// returned while its addresses stay, as of `rmm_rs_virtual_resource_new`. False if there is no
/// pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_can_sleep(resource: *const ResourceHandle) -> bool {
    guard::value(false, || {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let pool = unsafe { borrow(resource) }.and_then(|resource| pool_in(resource));
        pool.is_ok_and(PoolMemoryResource::can_sleep)
    })
}

/// Copies `bytes` bytes that a pool which sleeps with `RMM_RS_SLEEP_TO_HOST` keeps, as they were at
/// `pointer`, which may lie inside a block, to `out` in host memory.
///
/// `RMM_RS_NOT_READY` if the pool does not sleep; `RMM_RS_INVALID_ARGUMENT` if these bytes were not
/// kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_read_asleep(
    resource: *const ResourceHandle,
    pointer: *const c_void,
    bytes: usize,
    out: *mut c_void,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let pool = pool_in(unsafe { borrow(resource) }?)?;
        if out.is_null() || isize::try_from(bytes).is_err() {
            return Err(Failure::invalid("there is no memory of that many bytes to copy to"));
        }
        // SAFETY: by the clause on sleep, `out` has `bytes` bytes, which no other thread uses
        // during the call; the call only writes to them.
        let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), bytes) };
        pool.read_asleep(DevicePtr(pointer.addr() as u64), out)?;
        Ok(())
    })
}
