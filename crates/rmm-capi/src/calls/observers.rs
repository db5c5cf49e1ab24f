//! Functions that hear of what a pool has from upstream.

use std::ffi::c_void;

use rmm_adaptors::{UpstreamChange, UpstreamObserver};

use crate::handle::callback::Callback;
use crate::handle::failure::Failure;
use crate::handle::find::pool_in;
use crate::handle::guard;
use crate::handle::library::clear_mut;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::status::Status;

/// Memory from upstream, in which there is no block yet.
pub const RMM_RS_UPSTREAM_ALLOCATED: u32 = 0;
/// Memory that is about to go back to upstream, or to be unmapped since the pool falls asleep.
pub const RMM_RS_UPSTREAM_RELEASED: u32 = 1;

/// What an observer is: called with its context, one of `RMM_RS_UPSTREAM_*`, and the address and
/// bytes of the memory. It may be called on any thread, on several at once, with no lock held. It
/// may call this library; a request of the same pool must not need growth. An exception of C++ that
/// leaves it ends the process.
#[expect(non_camel_case_types, reason = "the name is one of C")]
pub type rmm_rs_upstream_function = Option<
    unsafe extern "C-unwind" fn(context: *mut c_void, change: u32, base: *mut c_void, bytes: u64),
>;

/// An observer that is registered with a pool.
#[derive(Debug)]
pub struct Observing {
    _guard: UpstreamObserver,
}

type Observer = Callback<unsafe extern "C-unwind" fn(*mut c_void, u32, *mut c_void, u64)>;

impl Observer {
    fn call(&self, change: UpstreamChange) {
        let (what, base, bytes) = match change {
            UpstreamChange::Allocated { base, bytes } => (RMM_RS_UPSTREAM_ALLOCATED, base, bytes),
            UpstreamChange::Released { base, bytes } => (RMM_RS_UPSTREAM_RELEASED, base, bytes),
            // What a later engine reports has no number here.
            _ => return,
        };
        let base = crate::calls::allocate::to_c(base);
        // SAFETY: by the clause on callbacks, it may be called with this context until its release.
        guard::call_back(|| unsafe { (self.function)(self.context, what, base, bytes) });
    }
}

/// Calls a function with each change of what the pool, or the first one below the resource, has
/// from upstream: before a block in new memory is returned, and before memory goes. What it has
/// already is in `rmm_rs_pool_walk`. The observer stays until `rmm_rs_upstream_observer_release`,
/// or the end of the pool; until the end if `out` is null. `release`, unless it is null, is called
/// with the context when no call of the function is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_observe_upstream(
    resource: *const ResourceHandle,
    function: rmm_rs_upstream_function,
    context: *mut c_void,
    release: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
    out: *mut *mut Observing,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear_mut(out) };
    guard::status(|| {
        let function = function.ok_or_else(|| Failure::invalid("the function is null"))?;
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let pool = pool_in(unsafe { borrow(resource) }?)?;
        // SAFETY: the clause on callbacks.
        let observer = unsafe { Callback::new(function, context, release) };
        let guard = pool.observe_upstream(move |change| observer.call(*change));
        if out.is_null() {
            guard.detach();
            return Ok(());
        }
        let observing = Box::into_raw(Box::new(Observing { _guard: guard }));
        // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
        unsafe { out.write(observing) };
        Ok(())
    })
}

/// Removes an observer. A call that another thread has begun may go on. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_upstream_observer_release(observer: *mut Observing) {
    guard::value((), || {
        if !observer.is_null() {
            // SAFETY: it came from `Box::into_raw`, and by the clause on handles its only reference
            // ends here.
            drop(unsafe { Box::from_raw(observer) });
        }
    });
}
