//! Logs of calls, in the format of RMM's: to a file, or to a function of the program.

use std::ffi::{CString, OsStr, OsString, c_char, c_void};

use rmm_adaptors::{LogColumn, LoggingResourceAdaptor};
use rmm_core::AnyResource;

use crate::calls::adaptors::over;
use crate::handle::callback::Callback;
use crate::handle::failure::Failure;
use crate::handle::find::with_adaptor;
use crate::handle::guard;
use crate::handle::resource::{ResourceHandle, borrow, write_text_of};
use crate::handle::status::Status;
use crate::handle::text;

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
        to_file(upstream, &file, auto_flush, 0)
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
        to_file(upstream, &file, auto_flush, columns)
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

/// The columns that a number stands for.
fn columns_of(columns: u32) -> Result<Vec<LogColumn>, Failure> {
    let flags = [
        (RMM_RS_LOG_TAG, LogColumn::Tag),
        (RMM_RS_LOG_SITE, LogColumn::Site),
        (RMM_RS_LOG_DEVICE, LogColumn::Device),
    ];
    if columns & !flags.iter().fold(0, |all, (flag, _)| all | flag) != 0 {
        return Err(Failure::invalid(format!("{columns:#x} is no sum of columns of a log")));
    }
    let wanted = flags.into_iter().filter(|(flag, _)| columns & flag != 0);
    Ok(wanted.map(|(_, column)| column).collect())
}

fn to_file(
    upstream: AnyResource<()>,
    file: &OsStr,
    auto_flush: bool,
    columns: u32,
) -> Result<AnyResource<()>, Failure> {
    let builder = LoggingResourceAdaptor::builder(upstream).columns(columns_of(columns)?);
    let built = builder.file(file).auto_flush(auto_flush).build();
    let named = std::path::Path::new(file).display();
    let built = built.map_err(|error| Failure::invalid(format!("{named}: {error}")))?;
    Ok(AnyResource::new(built))
}

/// What gets the lines of a log: called with its context and a line, which ends with a zero byte
/// instead of an end of line and is there during the call. The first line is the header. It may be
/// called on any thread, on several at once, with no lock held. It may call this library; a call
/// that is logged here calls it again. An exception of C++ that leaves it ends the process.
#[expect(non_camel_case_types, reason = "the name is one of C")]
pub type rmm_rs_log_function =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, line: *const c_char)>;

type OnLine = Callback<unsafe extern "C-unwind" fn(*mut c_void, *const c_char)>;

impl OnLine {
    fn call(&self, line: &str) {
        // A line has no zero byte: control characters in it are spaces.
        let line = CString::new(line).unwrap_or_default();
        // SAFETY: by the clause on callbacks, it may be called with this context until its release.
        guard::call_back(|| unsafe { (self.function)(self.context, line.as_ptr()) });
    }
}

/// Makes an adaptor that passes a line for each call to a function, as it comes, in the format of
/// RMM's log with the columns of `rmm_rs_logging_new_with_columns`. `release`, unless it is null,
/// is called with the context when the resource ends.
///
/// Source: `rmm::mr::logging_resource_adaptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_logging_new_with_callback(
    upstream: *const ResourceHandle,
    function: rmm_rs_log_function,
    context: *mut c_void,
    release: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
    columns: u32,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = |upstream| {
        let function = function.ok_or_else(|| Failure::invalid("the function is null"))?;
        let columns = columns_of(columns)?;
        // SAFETY: the clause on callbacks.
        let on_line = unsafe { Callback::new(function, context, release) };
        let builder = LoggingResourceAdaptor::builder(upstream).columns(columns);
        let built = builder.on_line(move |line| on_line.call(line)).build();
        Ok(AnyResource::new(built.map_err(|error| Failure::refused(error.to_string()))?))
    };
    // SAFETY: by the clauses on handles and pointers, for `upstream` and `out`.
    unsafe { over(upstream, out, build) }
}

/// Writes the lines that the log of such an adaptor, or of the first one below the resource, has in
/// its buffer.
///
/// Source: `logging_resource_adaptor::flush`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_logging_flush(resource: *const ResourceHandle) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let flushed = with_adaptor!(resource, LoggingResourceAdaptor, "logs calls", |adaptor| {
            adaptor.flush()
        })?;
        flushed.map_err(|error| Failure::refused(error.to_string()))
    })
}

/// Copies the first line of the log of such an adaptor, or of the first one below the resource,
/// into the buffer, as `rmm_rs_last_error_message` does with its text: the names of its columns.
///
/// Source: `logging_resource_adaptor::header`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_logging_header(
    resource: *const ResourceHandle,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    let header = |resource: &ResourceHandle| {
        with_adaptor!(resource, LoggingResourceAdaptor, "logs calls", |adaptor| {
            adaptor.header().to_owned()
        })
    };
    // SAFETY: by the clauses on handles and texts, for `resource` and `buffer`.
    unsafe { write_text_of(resource, buffer, capacity, header) }
}
