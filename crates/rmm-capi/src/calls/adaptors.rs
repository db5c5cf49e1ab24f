//! Adaptors: resources that see or change the requests to an upstream.

use std::alloc::Layout;
use std::ffi::{OsStr, OsString, c_char, c_void};
use std::io::Write as _;

use rmm_adaptors::{
    AlignedResourceAdaptor, FailureCallbackResourceAdaptor, FallbackMemoryResource,
    LimitingResourceAdaptor, LogColumn, LoggingResourceAdaptor, PrefetchResourceAdaptor,
    RecorderResourceAdaptor, StatisticsResourceAdaptor, ThreadSafeResourceAdaptor, TrackingFinding,
    TrackingResourceAdaptor,
};
use rmm_core::AnyResource;

use crate::calls::pool::note_wrong_free;
use crate::handle::callback::Callback;
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
unsafe fn over(
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

/// Makes an adaptor that writes each call to a file, as RMM does. If `file` is null, the
/// environment variable `RMM_LOG_FILE` names it.
///
/// Source: `rmm::mr::logging_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_logging_new(
    upstream: *const ResourceHandle,
    file: *const c_char,
    auto_flush: bool,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| {
        // SAFETY: by the clause on texts, `file` is null or ends with a zero byte and stays
        // unchanged.
        let file = unsafe { log_file(file) }?;
        logging(upstream, &file, auto_flush, 0)
    };
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}

/// Makes an adaptor that writes each call to a file, with columns after RMM's: `columns` is a sum
/// of `RMM_RS_LOG_TAG`, `RMM_RS_LOG_SITE` and `RMM_RS_LOG_DEVICE`. If `file` is null, the
/// environment variable `RMM_LOG_FILE` names it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_logging_new_with_columns(
    upstream: *const ResourceHandle,
    file: *const c_char,
    auto_flush: bool,
    columns: u32,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| {
        // SAFETY: by the clause on texts, `file` is null or ends with a zero byte and stays
        // unchanged.
        let file = unsafe { log_file(file) }?;
        logging(upstream, &file, auto_flush, columns)
    };
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}

/// A column of a log: the tag for which a block was allocated.
pub const RMM_RS_LOG_TAG: u32 = 1;
/// A column of a log: where in the program the allocation was requested, `file:line function`.
pub const RMM_RS_LOG_SITE: u32 = 2;
/// A column of a log: the number of the device.
pub const RMM_RS_LOG_DEVICE: u32 = 4;

/// The file of a log.
///
/// # Safety
/// `file` is null, or ends with a zero byte and stays unchanged during the call.
unsafe fn log_file(file: *const c_char) -> Result<OsString, Failure> {
    if file.is_null() {
        let variable = rmm_adaptors::LOG_FILE_VARIABLE;
        return std::env::var_os(variable).ok_or_else(|| {
            Failure::invalid(format!("the file is null, and {variable} is not set"))
        });
    }
    // SAFETY: the caller's contract.
    Ok(unsafe { text::read("the file", file) }?.into())
}

fn logging(
    upstream: AnyResource<()>,
    file: &OsStr,
    auto_flush: bool,
    columns: u32,
) -> Result<AnyResource<()>, Failure> {
    let flags = [
        (RMM_RS_LOG_TAG, LogColumn::Tag),
        (RMM_RS_LOG_SITE, LogColumn::Site),
        (RMM_RS_LOG_DEVICE, LogColumn::Device),
    ];
    if columns & !flags.iter().fold(0, |all, (flag, _)| all | flag) != 0 {
        return Err(Failure::invalid(format!("{columns:#x} is no sum of columns of a log")));
    }
    let columns = flags.into_iter().filter(|(flag, _)| columns & flag != 0);
    let builder = LoggingResourceAdaptor::builder(upstream).file(file).auto_flush(auto_flush);
    let built = builder.columns(columns.map(|(_, column)| column)).build();
    let named = std::path::Path::new(file).display();
    let built = built.map_err(|error| Failure::invalid(format!("{named}: {error}")))?;
    Ok(AnyResource::new(built))
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

/// What a failure callback is: called with its context and the bytes of a request that ran out of
/// memory, it returns whether to try again. It is called anew each time that the request fails,
/// without a limit. It may be called on any thread, on several at once. An exception of C++ that
/// leaves it ends the process.
#[expect(non_camel_case_types, reason = "the name is one of C")]
pub type rmm_rs_failure_callback =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, bytes: usize) -> bool>;

type OnFailure = Callback<unsafe extern "C-unwind" fn(*mut c_void, usize) -> bool>;

impl OnFailure {
    fn retries(&self, layout: Layout) -> bool {
        // SAFETY: by the clause on callbacks, it may be called with this context until its release.
        let call = || unsafe { (self.function)(self.context, layout.size()) };
        crate::handle::guard::call_back(call).0
    }
}

/// Makes an adaptor that calls back when the upstream is out of memory. `release`, unless it is
/// null, is called with the context when the resource ends.
///
/// Source: `rmm::mr::failure_callback_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_failure_callback_new(
    upstream: *const ResourceHandle,
    callback: rmm_rs_failure_callback,
    context: *mut c_void,
    release: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| {
        let callback = callback.ok_or_else(|| Failure::invalid("the callback is null"))?;
        // SAFETY: the clause on callbacks.
        let on_failure = unsafe { Callback::new(callback, context, release) };
        let builder = FailureCallbackResourceAdaptor::builder(upstream).max_retries(u32::MAX);
        let built = builder.build(move |failed| on_failure.retries(failed.layout));
        Ok(AnyResource::new(built))
    };
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
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
