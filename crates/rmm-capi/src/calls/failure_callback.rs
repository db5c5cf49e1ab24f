//! Callbacks of failed allocations.

use std::alloc::Layout;
use std::ffi::c_void;

use rmm_adaptors::FailureCallbackResourceAdaptor;
use rmm_core::{AnyResource, ErrorKind};

use crate::calls::adaptors::over;
use crate::handle::callback::Callback;
use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::resource::ResourceHandle;
use crate::handle::status::Status;

/// What a failure callback is: called with its context and the bytes of a request that failed, it
/// returns whether to try again. It is called anew each time that the request fails,
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
        guard::call_back(call).0
    }
}

/// Kind of failure: out of memory.
pub const RMM_RS_FAILURE_OUT_OF_MEMORY: u32 = 1;
/// Kind of failure: a function of the driver failed, or there is no driver.
pub const RMM_RS_FAILURE_CUDA_ERROR: u32 = 2;
/// Kind of failure: an invalid argument.
pub const RMM_RS_FAILURE_INVALID_ARGUMENT: u32 = 4;
/// Kind of failure: the driver, the device or the resource does not support the request.
pub const RMM_RS_FAILURE_REFUSED: u32 = 8;
/// Kind of failure: it cannot be done now, since work is pending or the pool sleeps.
pub const RMM_RS_FAILURE_NOT_READY: u32 = 16;

/// The kinds that a sum of flags stands for.
fn kinds_of(kinds: u32) -> Result<Vec<ErrorKind>, Failure> {
    let flags: [(u32, &[ErrorKind]); 5] = [
        (RMM_RS_FAILURE_OUT_OF_MEMORY, &[ErrorKind::OutOfMemory]),
        (RMM_RS_FAILURE_CUDA_ERROR, &[ErrorKind::Driver, ErrorKind::DriverUnavailable]),
        (RMM_RS_FAILURE_INVALID_ARGUMENT, &[ErrorKind::InvalidArgument, ErrorKind::OutOfRange]),
        (RMM_RS_FAILURE_REFUSED, &[ErrorKind::Unsupported]),
        (RMM_RS_FAILURE_NOT_READY, &[ErrorKind::NotReady]),
    ];
    if kinds == 0 || kinds & !flags.iter().fold(0, |all, (flag, _)| all | flag) != 0 {
        return Err(Failure::invalid(format!("{kinds:#x} is no sum of kinds of failures")));
    }
    let wanted = flags.into_iter().filter(|(flag, _)| kinds & flag != 0);
    Ok(wanted.flat_map(|(_, kinds)| kinds).copied().collect())
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
    // SAFETY: the caller's contract is the same.
    unsafe {
        rmm_rs_failure_callback_new_with_kinds(
            upstream,
            RMM_RS_FAILURE_OUT_OF_MEMORY,
            callback,
            context,
            release,
            out,
        )
    }
}

/// Makes such an adaptor for failures of other kinds: `kinds` is a sum of `RMM_RS_FAILURE_*`. What
/// is `bad_alloc` to RMM is `RMM_RS_FAILURE_OUT_OF_MEMORY` and `RMM_RS_FAILURE_CUDA_ERROR`.
///
/// Source: `rmm::mr::failure_callback_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_failure_callback_new_with_kinds(
    upstream: *const ResourceHandle,
    kinds: u32,
    callback: rmm_rs_failure_callback,
    context: *mut c_void,
    release: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| {
        let callback = callback.ok_or_else(|| Failure::invalid("the callback is null"))?;
        let kinds = kinds_of(kinds)?;
        // SAFETY: the clause on callbacks.
        let on_failure = unsafe { Callback::new(callback, context, release) };
        let builder = FailureCallbackResourceAdaptor::builder(upstream).on(kinds);
        let built =
            builder.max_retries(u32::MAX).build(move |failed| on_failure.retries(failed.layout));
        Ok(AnyResource::new(built))
    };
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}
