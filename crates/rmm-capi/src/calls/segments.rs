//! Functions that hear of the segments of a pool.

use std::ffi::c_void;

use rmm_adaptors::{SegmentEvent, SegmentGuard};

use crate::handle::callback::Callback;
use crate::handle::failure::Failure;
use crate::handle::find::pool_in;
use crate::handle::guard;
use crate::handle::library::clear_mut;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::status::Status;

/// A segment is there: memory from one call of upstream.
pub const RMM_RS_SEGMENT_ADDED: u32 = 0;
/// A segment is about to go back to upstream, or to be unmapped since the pool falls asleep; or the
/// callback is about to be removed.
pub const RMM_RS_SEGMENT_REMOVING: u32 = 1;

/// What a callback for segments is: called with its context, one of `RMM_RS_SEGMENT_*`, and the
/// address and bytes of the segment, it returns whether it agrees. If it does not, a new segment is
/// not used, and one that was to go stays. It may be called on any thread, on several at once, with
/// no lock held. It may call this library; a request of the same pool must not need growth. An
/// exception of C++ that leaves it ends the process.
#[expect(non_camel_case_types, reason = "the name is one of C")]
pub type rmm_rs_segment_function = Option<
    unsafe extern "C-unwind" fn(
        context: *mut c_void,
        event: u32,
        base: *mut c_void,
        bytes: u64,
    ) -> bool,
>;

/// A callback for segments that is registered with a pool.
#[derive(Debug)]
pub struct SegmentCallback {
    _guard: SegmentGuard,
}

type OnSegment = Callback<unsafe extern "C-unwind" fn(*mut c_void, u32, *mut c_void, u64) -> bool>;

impl OnSegment {
    fn call(&self, event: SegmentEvent) -> Result<(), &'static str> {
        let (what, segment) = match event {
            SegmentEvent::Added(segment) => (RMM_RS_SEGMENT_ADDED, segment),
            SegmentEvent::Removing(segment) => (RMM_RS_SEGMENT_REMOVING, segment),
            // What a later engine reports has no number here.
            _ => return Ok(()),
        };
        let (base, bytes) = (crate::calls::allocate::to_c(segment.base()), segment.bytes());
        // SAFETY: by the clause on callbacks, it may be called with this context until its release.
        let call = || unsafe { (self.function)(self.context, what, base, bytes) };
        if guard::call_back(call).0 { Ok(()) } else { Err("it returned false") }
    }
}

/// Calls a function with each segment of the pool, or of the first one below the resource: with
/// those that there are, with a new one before a block of it is returned, and before one goes. It
/// stays until `rmm_rs_segment_callback_release`, which calls it with each segment that is there,
/// or the end of the pool; until the end if `out` is null. `release`, unless it is null, is called
/// with the context when no call of the function is left: also if the function refuses a segment
/// that there is, which is `RMM_RS_REFUSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_on_segment(
    resource: *const ResourceHandle,
    function: rmm_rs_segment_function,
    context: *mut c_void,
    release: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
    out: *mut *mut SegmentCallback,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear_mut(out) };
    guard::status(|| {
        let function = function.ok_or_else(|| Failure::invalid("the function is null"))?;
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let pool = pool_in(unsafe { borrow(resource) }?)?;
        // SAFETY: the clause on callbacks.
        let on_segment = unsafe { Callback::new(function, context, release) };
        let guard = pool.on_segment(move |event| on_segment.call(event))?;
        if out.is_null() {
            guard.detach();
            return Ok(());
        }
        let registered = Box::into_raw(Box::new(SegmentCallback { _guard: guard }));
        // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
        unsafe { out.write(registered) };
        Ok(())
    })
}

/// Removes a callback, after calls with `RMM_RS_SEGMENT_REMOVING`. A call that another thread has
/// begun may go on. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_segment_callback_release(callback: *mut SegmentCallback) {
    guard::value((), || {
        if !callback.is_null() {
            // SAFETY: it came from `Box::into_raw`, and by the clause on handles its only reference
            // ends here.
            drop(unsafe { Box::from_raw(callback) });
        }
    });
}
