//! The pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rmm_adaptors::{FixedSizeMemoryResource, PoolMemoryResource, PoolPreset};
use rmm_core::{AnyResource, Introspect as _};
use rmm_resources::CudaAsyncMemoryResource;

use crate::direct::Direct;
use crate::failure::Failure;
use crate::guard;
use crate::library::clear_number;
use crate::resource::{self, Resource, borrow};
use crate::sized::{self, Sized};
use crate::status::Status;

/// Little waiting and few calls of the driver.
pub const RMM_RS_POOL_THROUGHPUT: u32 = 0;
/// Little memory.
pub const RMM_RS_POOL_COMPACT: u32 = 1;
/// The same addresses each time.
pub const RMM_RS_POOL_DETERMINISTIC: u32 = 2;

/// The end of streams is unknown: the driver is asked for a stream's id at each use.
pub const RMM_RS_STREAM_POLICY_CHECKED: u32 = 0;
/// Streams live until the program says `rmm_rs_stream_forget`: nothing is asked.
pub const RMM_RS_STREAM_POLICY_KEPT: u32 = 1;

/// The options of a pool. All zeros, but for the size, are the defaults.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolOptions {
    /// `sizeof(rmm_rs_pool_options)`, set by the caller.
    pub size: usize,
    /// Bytes to reserve at once.
    pub initial_size: u64,
    /// The most bytes to reserve; 0 for no limit.
    pub maximum_size: u64,
    /// Bytes above which the pool waits for other streams and returns idle memory before it grows;
    /// 0 for none.
    pub soft_maximum_size: u64,
    /// What the pool puts first: one of `RMM_RS_POOL_*`.
    pub preset: u32,
    /// One of `RMM_RS_STREAM_POLICY_*`.
    pub stream_policy: u32,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers only.
unsafe impl Sized for PoolOptions {}

/// What a pool holds and has done.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolFigures {
    /// `sizeof(rmm_rs_pool_statistics)`, set by the caller.
    pub size: usize,
    /// Bytes taken from upstream now.
    pub reserved_bytes: u64,
    /// Bytes allocated now.
    pub live_bytes: u64,
    /// The most bytes taken from upstream at once.
    pub peak_reserved_bytes: u64,
    /// The most bytes allocated at once.
    pub peak_live_bytes: u64,
    /// The largest free block.
    pub largest_free_bytes: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Frees so far.
    pub deallocations: u64,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers only.
unsafe impl Sized for PoolFigures {}

/// Makes a pool over the upstream. `options` may be null.
///
/// Source: `rmm::mr::pool_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_new(
    upstream: *const Resource,
    options: *const PoolOptions,
    out: *mut *const Resource,
) -> Status {
    let build = || {
        // SAFETY: the crate's contract.
        let upstream = unsafe { borrow(upstream) }?;
        let mut builder = PoolMemoryResource::builder(upstream.of_device()?);
        let mut policy = None;
        if !options.is_null() {
            // SAFETY: the crate's contract.
            let options = unsafe { sized::read("rmm_rs_pool_options", options) }?;
            if options.initial_size > 0 {
                builder = builder.initial_size(options.initial_size);
            }
            if options.maximum_size > 0 {
                builder = builder.maximum_size(options.maximum_size);
            }
            if options.soft_maximum_size > 0 {
                builder = builder.soft_maximum_size(options.soft_maximum_size);
            }
            builder = builder.preset(preset(options.preset)?);
            policy = Some(known_policy(options.stream_policy)?);
        }
        let any = AnyResource::new(builder.build()?);
        Ok(match policy {
            Some(policy) => Resource::new(any, Arc::new(AtomicU32::new(policy))),
            None => upstream.below(any),
        })
    };
    // SAFETY: the crate's contract.
    unsafe { resource::make(out, build) }
}

fn preset(number: u32) -> Result<PoolPreset, Failure> {
    match number {
        RMM_RS_POOL_THROUGHPUT => Ok(PoolPreset::Throughput),
        RMM_RS_POOL_COMPACT => Ok(PoolPreset::Compact),
        RMM_RS_POOL_DETERMINISTIC => Ok(PoolPreset::Deterministic),
        _ => Err(Failure::invalid(format!("{number} is no preset of a pool"))),
    }
}

fn known_policy(number: u32) -> Result<u32, Failure> {
    match number {
        RMM_RS_STREAM_POLICY_CHECKED | RMM_RS_STREAM_POLICY_KEPT => Ok(number),
        _ => Err(Failure::invalid(format!("{number} is no stream policy"))),
    }
}

/// What a question to the first pool of a stack gives.
fn asked<R>(resource: &Resource, ask: impl FnOnce(&Direct) -> Option<R>) -> Result<R, Failure> {
    ask(&Direct::in_stack(&resource.any)).ok_or_else(|| crate::find::none(resource, "is a pool"))
}

/// Returns unused memory of the first resource of a stack that holds any.
pub(crate) fn trim(any: &AnyResource<()>, keep: u64) -> Result<u64, Failure> {
    if let Some(bytes) = Direct::in_stack(any).trim(keep) {
        return Ok(bytes);
    }
    if let Some(blocks) = any.find::<FixedSizeMemoryResource<AnyResource>>() {
        return Ok(blocks.trim(keep));
    }
    if let Some(pool) = any.find::<CudaAsyncMemoryResource>() {
        let before = pool.reserved_bytes()?;
        pool.trim(keep)?;
        return Ok(before.saturating_sub(pool.reserved_bytes()?));
    }
    Err(Failure::refused("nothing in this stack holds memory that it could return"))
}

/// Writes the statistics of the pool, or of the first one below the resource.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_statistics_get(
    resource: *const Resource,
    out: *mut PoolFigures,
) -> Status {
    guard::status(|| {
        // SAFETY: the crate's contract.
        let statistics = asked(unsafe { borrow(resource) }?, Direct::statistics)?;
        let figures = PoolFigures {
            size: 0,
            reserved_bytes: statistics.reserved_bytes,
            live_bytes: statistics.live_bytes,
            peak_reserved_bytes: statistics.peak_reserved_bytes,
            peak_live_bytes: statistics.peak_live_bytes,
            largest_free_bytes: statistics.largest_free_bytes,
            allocations: statistics.allocations,
            deallocations: statistics.frees,
        };
        // SAFETY: the crate's contract.
        unsafe { sized::write("rmm_rs_pool_statistics", out, &figures) }
    })
}

/// Stores a number.
///
/// # Safety
/// `out` is null or may be written to.
pub(crate) unsafe fn store(out: *mut u64, number: u64) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::invalid("the place for the number is null"));
    }
    // SAFETY: the caller's contract.
    unsafe { out.write(number) };
    Ok(())
}

/// Stores the bytes that the pool, or the first one below the resource, has taken from upstream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_reserved_bytes(
    resource: *const Resource,
    out: *mut u64,
) -> Status {
    // SAFETY: the crate's contract.
    unsafe { clear_number(out) };
    guard::status(|| {
        // SAFETY: the crate's contract.
        let bytes = asked(unsafe { borrow(resource) }?, Direct::reserved_bytes)?;
        // SAFETY: the crate's contract.
        unsafe { store(out, bytes) }
    })
}

/// Stores the most bytes that the pool may reserve: `UINT64_MAX` if there is no limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_maximum_size(
    resource: *const Resource,
    out: *mut u64,
) -> Status {
    // SAFETY: the crate's contract.
    unsafe { clear_number(out) };
    guard::status(|| {
        // SAFETY: the crate's contract.
        let most = asked(unsafe { borrow(resource) }?, Direct::maximum_size)?;
        // SAFETY: the crate's contract.
        unsafe { store(out, most) }
    })
}

/// As `rmm_rs_resource_trim`, for a pool or a resource above one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_trim(
    resource: *const Resource,
    keep: u64,
    released: *mut u64,
) -> Status {
    // SAFETY: the crate's contract.
    unsafe { clear_number(released) };
    guard::status(|| {
        // SAFETY: the crate's contract.
        let bytes = asked(unsafe { borrow(resource) }?, |pool| pool.trim(keep))?;
        if !released.is_null() {
            // SAFETY: the crate's contract.
            unsafe { released.write(bytes) };
        }
        Ok(())
    })
}

/// Sets how the streams of raw handles are identified, for the resource and all that were made over
/// it: one of `RMM_RS_STREAM_POLICY_*`. Back to `CHECKED`, it holds for handles that are new; those
/// that were kept stay known until they are forgotten.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_stream_policy(
    resource: *const Resource,
    policy: u32,
) -> Status {
    guard::status(|| {
        // SAFETY: the crate's contract.
        let resource = unsafe { borrow(resource) }?;
        // It protects no other memory.
        resource.policy.store(known_policy(policy)?, Ordering::Relaxed);
        Ok(())
    })
}
