//! Adaptors: resources that see or change the requests to an upstream.

use std::ffi::c_char;
use std::io::Write as _;

use rmm_adaptors::{
    AlignedResourceAdaptor, FallbackMemoryResource, LimitingResourceAdaptor,
    PrefetchResourceAdaptor, RecorderResourceAdaptor, StatisticsResourceAdaptor,
    ThreadSafeResourceAdaptor, TrackingFinding, TrackingResourceAdaptor,
};
use rmm_core::AnyResource;

use crate::calls::pool::{note_wrong_free, store_of};
use crate::handle::failure::Failure;
use crate::handle::find::with_adaptor;
use crate::handle::guard;
use crate::handle::resource::{self, ResourceHandle, borrow};
use crate::handle::status::Status;
use crate::handle::text;

/// Makes a resource over another one.
///
/// # Safety
/// `upstream` is null or live during the call; `out` is null or valid for a write.
pub(crate) unsafe fn over(
    upstream: *const ResourceHandle,
    out: *mut *const ResourceHandle,
    build: impl FnOnce(AnyResource<()>) -> Result<AnyResource<()>, Failure>,
) -> i32 {
    let build = || {
        // SAFETY: the caller's contract.
        let upstream = unsafe { borrow(upstream) }?;
        Ok(upstream.below(build(upstream.any.clone())?))
    };
    // SAFETY: the caller's contract.
    unsafe { resource::make(out, build) }
}

/// Makes an adaptor that refuses requests beyond `limit` bytes in all.
///
/// Source: `rmm::mr::limiting_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_limiting_new(
    upstream: *const ResourceHandle,
    limit: u64,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| Ok(AnyResource::new(LimitingResourceAdaptor::new(upstream, limit)));
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}

/// Makes such an adaptor, for which each block counts as its size rounded up to `alignment`, a
/// power of two; without one it is 256.
///
/// Source: `rmm::mr::limiting_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_limiting_new_with_alignment(
    upstream: *const ResourceHandle,
    limit: u64,
    alignment: usize,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| {
        let limiting = LimitingResourceAdaptor::with_alignment(upstream, limit, alignment)?;
        Ok(AnyResource::new(limiting))
    };
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}

/// Stores the bytes that count as allocated in such an adaptor, or in the first one below the
/// resource.
///
/// Source: `limiting_resource_adaptor::get_allocated_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_limiting_allocated_bytes(
    resource: *const ResourceHandle,
    out: *mut u64,
) -> Status {
    let number = |resource: &ResourceHandle| {
        with_adaptor!(resource, LimitingResourceAdaptor, "has a limit", |adaptor| {
            adaptor.allocated_bytes()
        })
    };
    // SAFETY: by the clauses on handles and pointers, for `resource` and `out`.
    unsafe { store_of(resource, out, number) }
}

/// Stores the limit of such an adaptor, or of the first one below the resource, in bytes.
///
/// Source: `limiting_resource_adaptor::get_allocation_limit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_limiting_allocation_limit(
    resource: *const ResourceHandle,
    out: *mut u64,
) -> Status {
    let number = |resource: &ResourceHandle| {
        with_adaptor!(resource, LimitingResourceAdaptor, "has a limit", |adaptor| {
            adaptor.allocation_limit()
        })
    };
    // SAFETY: by the clauses on handles and pointers, for `resource` and `out`.
    unsafe { store_of(resource, out, number) }
}

/// Changes the limit of such an adaptor, or of the first one below the resource. If more is in use,
/// requests fail until enough is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_limiting_set_limit(
    resource: *const ResourceHandle,
    limit: u64,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        with_adaptor!(resource, LimitingResourceAdaptor, "has a limit", |adaptor| {
            adaptor.set_allocation_limit(limit);
        })
    })
}

/// Makes an adaptor that aligns requests of `threshold` bytes and more to `alignment`, a power of
/// two of at least 256.
///
/// Source: `rmm::mr::aligned_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_aligned_new(
    upstream: *const ResourceHandle,
    alignment: usize,
    threshold: usize,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| {
        let aligned = AlignedResourceAdaptor::with_threshold(upstream, alignment, threshold)?;
        Ok(AnyResource::new(aligned))
    };
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}

/// Makes an adaptor that keeps the last `events` calls and what was live before them, with the call
/// site of each allocation if `sites`. If `oom_report` is not null, it names a directory, to which
/// what is kept is written when a request fails for lack of memory, at most three times in a
/// process; the error names the file. 0 events are the default, 65,536.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_recorder_new(
    upstream: *const ResourceHandle,
    events: usize,
    sites: bool,
    oom_report: *const c_char,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| {
        let mut builder = RecorderResourceAdaptor::builder(upstream).sites(sites);
        if events > 0 {
            builder = builder.events(events);
        }
        if !oom_report.is_null() {
            // SAFETY: by the clause on texts, it ends with a zero byte and stays unchanged.
            let directory = unsafe { text::read("the directory", oom_report) }?;
            builder = builder.oom_report(directory);
        }
        Ok(AnyResource::new(builder.build()))
    };
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}

/// Writes what such an adaptor, or the first one below the resource, keeps to a file, as a log with
/// all columns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_recorder_save(
    resource: *const ResourceHandle,
    file: *const c_char,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        // SAFETY: by the clause on texts, `file` ends with a zero byte and stays unchanged.
        let file = unsafe { text::read("the file", file) }?;
        let saved = with_adaptor!(resource, RecorderResourceAdaptor, "keeps calls", |adaptor| {
            adaptor.save(file)
        })?;
        saved.map_err(|error| Failure::invalid(error.to_string()))
    })
}

/// Makes an adaptor that counts bytes and allocations.
///
/// Source: `rmm::mr::statistics_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_statistics_new(
    upstream: *const ResourceHandle,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| Ok(AnyResource::new(StatisticsResourceAdaptor::new(upstream)));
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}

/// Makes an adaptor that remembers every allocation, with the stack of its caller if
/// `capture_stacks`.
///
/// Source: `rmm::mr::tracking_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_tracking_new(
    upstream: *const ResourceHandle,
    capture_stacks: bool,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        // SAFETY: by the clause on handles, `upstream` is null or live during the call.
        let upstream = unsafe { borrow(upstream) }?;
        let builder = TrackingResourceAdaptor::builder(upstream.any.clone());
        let tracked = builder.capture_stacks(capture_stacks).on_finding(write_finding);
        Ok(upstream.below(AnyResource::new(tracked)).that_reports())
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// Writes a finding to the standard error stream, as RMM does to its log; a wrong free also fails.
fn write_finding(finding: &TrackingFinding<'_>) {
    // There is no one to report a failed write to.
    let _ignored = writeln!(std::io::stderr(), "rmm: tracking: {finding}");
    if !matches!(finding, TrackingFinding::Leak(_)) {
        note_wrong_free(finding);
    }
}

/// Makes an adaptor that prefetches managed memory to the current device.
///
/// Source: `rmm::mr::prefetch_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_prefetch_new(
    upstream: *const ResourceHandle,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| Ok(AnyResource::new(PrefetchResourceAdaptor::new(upstream)));
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}

/// Makes an adaptor that calls the upstream from one thread at a time. Resources of this library
/// need none; one made of callbacks may.
///
/// Source: `rmm::mr::thread_safe_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_thread_safe_new(
    upstream: *const ResourceHandle,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| Ok(AnyResource::new(ThreadSafeResourceAdaptor::new(upstream)));
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}

/// Makes a resource that asks `second` where `first` is out of memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_fallback_new(
    first: *const ResourceHandle,
    second: *const ResourceHandle,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |first| {
        // SAFETY: by the clause on handles, `second` is null or live during the call.
        let second = unsafe { borrow(second) }?;
        let both = FallbackMemoryResource::<()>::with_properties(first, second.any.clone());
        Ok(AnyResource::new(both))
    };
    // SAFETY: by the clauses on handles and pointers, for `first` and `out`.
    unsafe { over(first, out, build) }
}
