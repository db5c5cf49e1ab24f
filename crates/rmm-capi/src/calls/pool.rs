//! The pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rmm_adaptors::{PoolMemoryResource, PoolPreset, ReleasePolicy, TrackingFinding};
use rmm_core::AnyResource;
use rmm_resources::Budget;

use crate::handle::failure::Failure;
use crate::handle::find::pool_in;
use crate::handle::guard;
use crate::handle::library::{RMM_RS_UNKNOWN, clear_number};
use crate::handle::resource::{self, ResourceHandle, borrow};
pub use crate::handle::resource::{RMM_RS_STREAM_POLICY_CHECKED, RMM_RS_STREAM_POLICY_KEPT};
use crate::handle::sized::{self, Sized};
use crate::handle::status::Status;

/// Little waiting and few calls of the driver.
pub const RMM_RS_POOL_THROUGHPUT: u32 = 0;
/// Little memory.
pub const RMM_RS_POOL_COMPACT: u32 = 1;
/// The same addresses each time.
pub const RMM_RS_POOL_DETERMINISTIC: u32 = 2;
/// The fewest calls of the driver: over virtual memory the pool doubles when it grows.
pub const RMM_RS_POOL_LOW_LATENCY: u32 = 3;

/// Flag of a pool: each block is filled with zeros before the caller gets it, by a call of the
/// driver in the order of the stream.
pub const RMM_RS_POOL_CLEAR_BLOCKS: u32 = 1;
/// Flag of a pool: it returns idle memory beyond `release_above` reserved bytes by itself, as
/// blocks are freed.
pub const RMM_RS_POOL_RELEASE_ABOVE: u32 = 2;
/// Flag of a pool: it checks each free, for programs that are looked into. One with a wrong size
/// frees the block with its own, one of what is no block of the pool changes nothing; both fail
/// with `RMM_RS_INVALID_ARGUMENT`, and the last error names the address, the sizes, and where the
/// block was allocated and is freed. Each allocation takes some microseconds longer.
pub const RMM_RS_POOL_CHECK_FREES: u32 = 4;

/// Flag of a pool: its memory is that of CUDA graphs, which use it at each launch. It serves
/// streams under capture as any others, and grows meanwhile. What a stream has freed serves that
/// stream again, never another one, and no trim or wait returns it before
/// `rmm_rs_pool_release_graph_memory`. Without thread caches, and not with
/// `RMM_RS_POOL_CHECK_FREES`.
pub const RMM_RS_POOL_GRAPHS: u32 = 8;

/// Flag of a pool: each block lies within one segment, which is one allocation of the driver, so
/// that it is exported and registered as one. Then a pool over virtual memory does not grow in
/// place, and takes more memory.
pub const RMM_RS_POOL_SINGLE_HANDLE: u32 = 16;
/// Flag of a pool: segments stay until its end, so that what is registered stays registered. No
/// trim, no other pool and no request gets them, and the pool cannot sleep.
pub const RMM_RS_POOL_PINNED_SEGMENTS: u32 = 32;

/// All flags.
const POOL_FLAGS: u32 = RMM_RS_POOL_CLEAR_BLOCKS
    | RMM_RS_POOL_RELEASE_ABOVE
    | RMM_RS_POOL_CHECK_FREES
    | RMM_RS_POOL_GRAPHS
    | RMM_RS_POOL_SINGLE_HANDLE
    | RMM_RS_POOL_PINNED_SEGMENTS;

/// No budget: `maximum_size` alone counts.
pub const RMM_RS_BUDGET_NONE: u32 = 0;
/// The maximum is `budget_fraction` of the device's free memory when the pool is made.
pub const RMM_RS_BUDGET_FREE_FRACTION: u32 = 1;
/// It is the device's free memory without `budget_bytes`, which stay for others.
pub const RMM_RS_BUDGET_FREE_EXCEPT: u32 = 2;
/// It is `budget_fraction` of the host's free memory: for pools of pinned memory.
pub const RMM_RS_BUDGET_HOST_FRACTION: u32 = 3;

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
    /// A maximum in relation to the memory that there is: one of `RMM_RS_BUDGET_*`. Of this and
    /// `maximum_size` the smaller one counts.
    pub budget: u32,
    /// Any of `RMM_RS_POOL_CLEAR_BLOCKS`, `RMM_RS_POOL_RELEASE_ABOVE`, `RMM_RS_POOL_CHECK_FREES`,
    /// `RMM_RS_POOL_GRAPHS`, `RMM_RS_POOL_SINGLE_HANDLE` and `RMM_RS_POOL_PINNED_SEGMENTS`.
    pub flags: u32,
    /// From 0 to 1.
    pub budget_fraction: f64,
    /// For `RMM_RS_BUDGET_FREE_EXCEPT`.
    pub budget_bytes: u64,
    /// For `RMM_RS_POOL_RELEASE_ABOVE`.
    pub release_above: u64,
    /// Milliseconds after which the pool returns memory by itself that was not in use in them, as
    /// blocks are freed; 0 for never.
    pub release_after_ms: u64,
    /// Bytes of each segment, which the pool takes from upstream at a time: a power of two, of at
    /// least a page of upstream; 0 for segments that grow with the pool.
    pub segment_size: u64,
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
    /// The most bytes allocated at once, with those of freed blocks in caches.
    pub peak_live_bytes: u64,
    /// The largest free block.
    pub largest_free_bytes: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Frees so far.
    pub deallocations: u64,
    /// Frees so far of addresses that were not allocated, as far as they were noticed: all with
    /// `RMM_RS_POOL_CHECK_FREES`.
    pub unknown_frees: u64,
    /// Frees so far with another size or alignment than that of the allocation; with
    /// `RMM_RS_POOL_CHECK_FREES` only.
    pub wrong_frees: u64,
    /// Hits so far: allocations that the thread's cache served. The others are misses.
    pub cached_allocations: u64,
    /// Times so far that a thread found the pool's lock taken, and waited for it.
    pub lock_waits: u64,
    /// Caches of threads that were emptied into the pool's free lists so far.
    pub flushes: u64,
    /// Blocks that have left a thread's cache for these lists or for other threads so far.
    pub flushed_blocks: u64,
    /// Ranges that threads' caches have now to divide for large blocks.
    pub spans: u64,
    /// Allocations from upstream so far.
    pub upstream_allocations: u64,
    /// Blocks returned to upstream so far.
    pub upstream_frees: u64,
    /// Events recorded on streams so far.
    pub events_recorded: u64,
    /// Events and streams queried so far.
    pub event_queries: u64,
    /// Waits of one stream for another so far.
    pub stream_waits: u64,
    /// Waits of a calling thread for the device so far.
    pub host_waits: u64,
    /// The part of `reserved_bytes` that has no memory, while the pool sleeps.
    pub asleep_bytes: u64,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers only.
unsafe impl Sized for PoolFigures {}

/// Makes the pool to begin with: over virtual memory where the current device has it, and over
/// `cudaMalloc` elsewhere. It has no limit, and holds no memory yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_default_pool_new(out: *mut *const ResourceHandle) -> Status {
    let build = || Ok(ResourceHandle::base(AnyResource::new(rmm_adaptors::default_pool()?)));
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// Makes a pool over the upstream. `options` may be null.
///
/// Source: `rmm::mr::pool_memory_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_new(
    upstream: *const ResourceHandle,
    options: *const PoolOptions,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        // SAFETY: by the clause on handles, `upstream` is null or live during the call.
        let upstream = unsafe { borrow(upstream) }?;
        let mut builder = PoolMemoryResource::builder(upstream.of_device()?);
        let (mut policy, mut reports) = (None, false);
        if !options.is_null() {
            // SAFETY: by the clause on structures, `options` is null or as large as it says.
            let options = unsafe { sized::read("rmm_rs_pool_options", options) }?;
            if options.initial_size > 0 {
                builder = builder.initial_size(options.initial_size);
            }
            if options.soft_maximum_size > 0 {
                builder = builder.soft_maximum_size(options.soft_maximum_size);
            }
            if options.flags & RMM_RS_POOL_RELEASE_ABOVE != 0 {
                builder = builder.release(ReleasePolicy::Above { bytes: options.release_above });
            }
            if options.release_after_ms > 0 {
                let unused = Duration::from_millis(options.release_after_ms);
                builder = builder.release_after(unused);
            }
            if let Some(limit) = limit(&options)? {
                builder = builder.maximum_size(limit);
            }
            if options.flags & !POOL_FLAGS != 0 {
                let text = format!("{:#x} are no flags of a pool", options.flags);
                return Err(Failure::invalid(text));
            }
            builder = builder.clear_blocks(options.flags & RMM_RS_POOL_CLEAR_BLOCKS != 0);
            let (graphs, checks) = (RMM_RS_POOL_GRAPHS, RMM_RS_POOL_CHECK_FREES);
            if options.flags & (graphs | checks) == graphs | checks {
                let text = "a pool for graphs does not check frees: leave out one of the flags";
                return Err(Failure::invalid(text));
            }
            builder = builder.for_graphs(options.flags & graphs != 0);
            builder = builder
                .single_handle(options.flags & RMM_RS_POOL_SINGLE_HANDLE != 0)
                .pinned_segments(options.flags & RMM_RS_POOL_PINNED_SEGMENTS != 0);
            if options.segment_size > 0 {
                builder = builder.segment_size(options.segment_size);
            }
            if options.flags & RMM_RS_POOL_CHECK_FREES != 0 {
                reports = true;
                builder = builder.on_wrong_free(note_wrong_free);
            }
            builder = builder.preset(preset(options.preset)?);
            policy = Some(known_policy(options.stream_policy)?);
        }
        let any = AnyResource::new(builder.build()?);
        let pool = match policy {
            Some(policy) => ResourceHandle::new(any, Arc::new(AtomicU32::new(policy))),
            None => upstream.below(any),
        };
        Ok(if reports { pool.that_reports() } else { pool })
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// Makes a wrong free the last error of the thread that frees.
pub(crate) fn note_wrong_free(finding: &TrackingFinding<'_>) {
    let _ignored = guard::note(Failure::invalid(finding.to_string()));
}

fn preset(number: u32) -> Result<PoolPreset, Failure> {
    match number {
        RMM_RS_POOL_THROUGHPUT => Ok(PoolPreset::Throughput),
        RMM_RS_POOL_COMPACT => Ok(PoolPreset::Compact),
        RMM_RS_POOL_DETERMINISTIC => Ok(PoolPreset::Deterministic),
        RMM_RS_POOL_LOW_LATENCY => Ok(PoolPreset::LowLatency),
        _ => Err(Failure::invalid(format!("{number} is no preset of a pool"))),
    }
}

/// The smaller one of the maximum size and the budget, as far as they are set.
fn limit(options: &PoolOptions) -> Result<Option<Budget>, Failure> {
    let budget = match options.budget {
        RMM_RS_BUDGET_NONE => None,
        RMM_RS_BUDGET_FREE_FRACTION => Some(Budget::free_fraction(options.budget_fraction)),
        RMM_RS_BUDGET_FREE_EXCEPT => Some(Budget::free_except(options.budget_bytes)),
        RMM_RS_BUDGET_HOST_FRACTION => Some(Budget::host_fraction(options.budget_fraction)),
        other => return Err(Failure::invalid(format!("{other} is no budget of a pool"))),
    };
    Ok(match (budget, options.maximum_size) {
        (budget, 0) => budget,
        (Some(budget), bytes) => Some(budget.at_most(bytes)),
        (None, bytes) => Some(bytes.into()),
    })
}

fn known_policy(number: u32) -> Result<u32, Failure> {
    match number {
        RMM_RS_STREAM_POLICY_CHECKED | RMM_RS_STREAM_POLICY_KEPT => Ok(number),
        _ => Err(Failure::invalid(format!("{number} is no stream policy"))),
    }
}

/// Writes the statistics of the pool, or of the first one below the resource.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_statistics_get(
    resource: *const ResourceHandle,
    out: *mut PoolFigures,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let statistics = pool_in(unsafe { borrow(resource) }?)?.statistics();
        let figures = PoolFigures {
            size: 0,
            reserved_bytes: statistics.reserved_bytes,
            live_bytes: statistics.live_bytes,
            peak_reserved_bytes: statistics.peak_reserved_bytes,
            peak_live_bytes: statistics.peak_live_bytes,
            largest_free_bytes: statistics.largest_free_bytes,
            allocations: statistics.allocations,
            deallocations: statistics.frees,
            unknown_frees: statistics.unknown_frees,
            wrong_frees: statistics.wrong_frees,
            cached_allocations: statistics.cached_allocations,
            lock_waits: statistics.lock_waits,
            flushes: statistics.flushes,
            flushed_blocks: statistics.flushed_blocks,
            spans: statistics.spans,
            upstream_allocations: statistics.upstream_allocations,
            upstream_frees: statistics.upstream_frees,
            events_recorded: statistics.events_recorded,
            event_queries: statistics.event_queries,
            stream_waits: statistics.stream_waits,
            host_waits: statistics.host_waits,
            asleep_bytes: statistics.asleep_bytes,
        };
        // SAFETY: by the clause on structures, `out` is null or as large as it says, and writable.
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

/// Stores a number of a resource, or 0 if it fails.
///
/// # Safety
/// `resource` is null or live during the call, and `out` is null or may be written to.
pub(crate) unsafe fn store_of(
    resource: *const ResourceHandle,
    out: *mut u64,
    number: impl FnOnce(&ResourceHandle) -> Result<u64, Failure>,
) -> Status {
    // SAFETY: the caller's contract.
    unsafe { clear_number(out) };
    guard::status(|| {
        // SAFETY: the caller's contract.
        let number = number(unsafe { borrow(resource) }?)?;
        // SAFETY: the caller's contract.
        unsafe { store(out, number) }
    })
}

/// Stores the bytes that the pool, or the first one below the resource, has taken from upstream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_reserved_bytes(
    resource: *const ResourceHandle,
    out: *mut u64,
) -> Status {
    let number = |resource: &ResourceHandle| Ok(pool_in(resource)?.reserved_bytes());
    // SAFETY: by the clauses on handles and pointers, for `resource` and `out`.
    unsafe { store_of(resource, out, number) }
}

/// Stores the most bytes that the pool may reserve: `UINT64_MAX` if there is no limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_maximum_size(
    resource: *const ResourceHandle,
    out: *mut u64,
) -> Status {
    let number =
        |resource: &ResourceHandle| Ok(pool_in(resource)?.maximum_size().unwrap_or(RMM_RS_UNKNOWN));
    // SAFETY: by the clauses on handles and pointers, for `resource` and `out`.
    unsafe { store_of(resource, out, number) }
}

/// Changes the most bytes that the pool, or the first one below the resource, may reserve:
/// `UINT64_MAX` lifts the limit. What it holds beyond stays until it is trimmed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_set_maximum_size(
    resource: *const ResourceHandle,
    bytes: u64,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let pool = pool_in(unsafe { borrow(resource) }?)?;
        Ok(pool.set_maximum_size(Some(bytes).filter(|&bytes| bytes != RMM_RS_UNKNOWN))?)
    })
}

/// Lowers `peak_reserved_bytes` of the pool, or of the first one below the resource, to what is
/// reserved now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_reset_peak_reserved(
    resource: *const ResourceHandle,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        pool_in(unsafe { borrow(resource) }?)?.reset_peak_reserved();
        Ok(())
    })
}

/// As `rmm_rs_resource_trim`, for the pool alone, or the first one below the resource.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_trim(
    resource: *const ResourceHandle,
    keep: u64,
    released: *mut u64,
) -> Status {
    // SAFETY: by the clause on pointers, `released` is null or valid for a write.
    unsafe { clear_number(released) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let bytes = pool_in(unsafe { borrow(resource) }?)?.trim(keep);
        if !released.is_null() {
            // SAFETY: by the clause on pointers, `released` is valid for a write; it is not null.
            unsafe { released.write(bytes) };
        }
        Ok(())
    })
}

/// Returns what the options `release_above` and `release_after_ms` do not keep, as far as it is
/// known to be unused. Frees do this now and then: call it in a program that frees nothing for a
/// while. Stores the bytes in `released`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_release_unused(
    resource: *const ResourceHandle,
    released: *mut u64,
) -> Status {
    // SAFETY: by the clause on pointers, `released` is null or valid for a write.
    unsafe { clear_number(released) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let bytes = pool_in(unsafe { borrow(resource) }?)?.release_unused();
        if !released.is_null() {
            // SAFETY: by the clause on pointers, `released` is valid for a write; it is not null.
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
    resource: *const ResourceHandle,
    policy: u32,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        // It protects no other memory.
        resource.policy.store(known_policy(policy)?, Ordering::Relaxed);
        Ok(())
    })
}
