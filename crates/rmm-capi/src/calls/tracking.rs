//! The outstanding allocations of tracking adaptors.

use std::ffi::c_char;

use rmm_adaptors::TrackingResourceAdaptor;

use crate::calls::pool::store;
use crate::handle::find::with_adaptor;
use crate::handle::library::clear_number;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::status::Status;
use crate::handle::{guard, text};

/// Stores the bytes of all allocations that the tracking adaptor, or the first one below the
/// resource, has seen and that were not freed.
///
/// Source: `tracking_resource_adaptor::get_allocated_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_tracking_outstanding_bytes(
    resource: *const ResourceHandle,
    out: *mut u64,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear_number(out) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let bytes =
            with_adaptor!(resource, TrackingResourceAdaptor, "tracks allocations", |this| this
                .allocated_bytes())?;
        // SAFETY: by the clause on pointers, `out` is null or valid for a write.
        unsafe { store(out, bytes) }
    })
}

/// Copies a report of those allocations, with the stacks of their callers if they were captured,
/// into the buffer, as `rmm_rs_last_error_message` does with its text.
///
/// Source: `tracking_resource_adaptor::get_outstanding_allocations_str`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_tracking_outstanding(
    resource: *const ResourceHandle,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    // SAFETY: by the clause on texts, `buffer` is null or has `capacity` bytes.
    unsafe { text::clear(buffer, capacity) };
    guard::value(0, || {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let report = unsafe { borrow(resource) }.and_then(|resource| {
            with_adaptor!(resource, TrackingResourceAdaptor, "tracks allocations", |this| this
                .report()
                .to_string())
        });
        // SAFETY: by the clause on texts, `buffer` is null or has `capacity` bytes.
        unsafe { text::write(&report.unwrap_or_default(), buffer, capacity) }
    })
}
