//! The outstanding allocations of tracking adaptors.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use rmm_adaptors::TrackingResourceAdaptor;

use crate::calls::allocate::to_c;
use crate::calls::pool::store_of;
use crate::handle::failure::Failure;
use crate::handle::find::with_adaptor;
use crate::handle::guard;
use crate::handle::resource::{ResourceHandle, borrow, write_text_of};
use crate::handle::status::Status;

/// Stores the bytes of all allocations that the tracking adaptor, or the first one below the
/// resource, has seen and that were not freed.
///
/// Source: `tracking_resource_adaptor::get_allocated_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_tracking_outstanding_bytes(
    resource: *const ResourceHandle,
    out: *mut u64,
) -> Status {
    let number = |resource: &ResourceHandle| {
        with_adaptor!(resource, TrackingResourceAdaptor, "tracks allocations", |adaptor| {
            adaptor.allocated_bytes()
        })
    };
    // SAFETY: by the clauses on handles and pointers, for `resource` and `out`.
    unsafe { store_of(resource, out, number) }
}

/// Copies a report of those allocations into the buffer, as `rmm_rs_last_error_message` does with
/// its text: their sum, the places in the program that made the most of them if stacks are
/// captured, and the 20 largest. `rmm_rs_tracking_walk` has them all.
///
/// Source: `tracking_resource_adaptor::get_outstanding_allocations_str`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_tracking_outstanding(
    resource: *const ResourceHandle,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    let report = |resource: &ResourceHandle| {
        with_adaptor!(resource, TrackingResourceAdaptor, "tracks allocations", |adaptor| {
            adaptor.report().to_string()
        })
    };
    // SAFETY: by the clauses on handles and texts, for `resource` and `buffer`.
    unsafe { write_text_of(resource, buffer, capacity, report) }
}

/// An allocation that was not freed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TrackedBlock {
    /// `sizeof(rmm_rs_tracked_block)` of the library.
    pub size: usize,
    /// Its address.
    pub pointer: *mut c_void,
    /// The bytes that were requested.
    pub bytes: u64,
    /// The alignment that was requested.
    pub alignment: u64,
    /// The function of the program that requested it, with the line where that is known; null
    /// without stacks.
    pub place: *const c_char,
    /// The stack of the request, a line or two for each frame, the innermost first; null without
    /// stacks.
    pub stack: *const c_char,
}

/// What a walk of a tracking adaptor calls with each allocation and its context. The texts are
/// there during the call. It may call this library. An exception of C++ that leaves it ends the
/// process.
#[expect(non_camel_case_types, reason = "the name is one of C")]
pub type rmm_rs_tracking_visit_function =
    Option<unsafe extern "C-unwind" fn(block: *const TrackedBlock, context: *mut c_void)>;

/// Calls `visit` with each allocation that the tracking adaptor, or the first one below the
/// resource, has seen and that was not freed, the largest first. A copy is walked, so `visit` may
/// call every function. With stacks, the names of functions are looked up, which takes milliseconds
/// each.
///
/// Source: `tracking_resource_adaptor::get_outstanding_allocations`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_tracking_walk(
    resource: *const ResourceHandle,
    visit: rmm_rs_tracking_visit_function,
    context: *mut c_void,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let blocks =
            with_adaptor!(resource, TrackingResourceAdaptor, "tracks allocations", |this| this
                .outstanding())?;
        let visit = visit.ok_or_else(|| Failure::invalid("the function is null"))?;
        for block in blocks {
            let text = |text: String| CString::new(text).ok();
            let (place, stack) = (block.call_site(), block.callstack());
            let (place, stack) = (place.and_then(text), stack.and_then(text));
            let address =
                |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
            let tracked = TrackedBlock {
                size: size_of::<TrackedBlock>(),
                pointer: to_c(block.pointer),
                bytes: block.layout.size() as u64,
                alignment: block.layout.align() as u64,
                place: address(&place),
                stack: address(&stack),
            };
            // SAFETY: by the clause on callbacks, it may be called with this context; the block and
            // its texts are valid during the call.
            let ((), _) = guard::call_back(|| unsafe { visit(&raw const tracked, context) });
        }
        Ok(())
    })
}
