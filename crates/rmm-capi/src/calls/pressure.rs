//! Callbacks for when a pool is about to refuse a request.

use std::ffi::c_void;
use std::mem::size_of;

use rmm_adaptors::PressureCallback;

use crate::handle::callback::Callback;
use crate::handle::failure::Failure;
use crate::handle::find::pool_in;
use crate::handle::guard;
use crate::handle::library::clear_mut;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::status::Status;

/// A request that is about to fail for lack of memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PressureInfo {
    /// `sizeof(rmm_rs_pressure)` of the library.
    pub size: usize,
    /// The bytes that were requested, rounded up as the pool does.
    pub requested: u64,
    /// The fewest bytes that have to be freed, to the pool or to the device. More if memory is
    /// fragmented.
    pub missing: u64,
}

/// What a pressure callback is: called with its context and the request, it returns whether it has
/// freed memory. It may be called on any thread, on several at once, with no lock held, and may
/// call this library. An exception of C++ that leaves it ends the process.
#[expect(non_camel_case_types, reason = "the name is one of C")]
pub type rmm_rs_pressure_function = Option<
    unsafe extern "C-unwind" fn(context: *mut c_void, pressure: *const PressureInfo) -> bool,
>;

/// A callback that is registered with a pool.
#[derive(Debug)]
pub struct Registered {
    _guard: PressureCallback,
}

type OnPressure = Callback<unsafe extern "C-unwind" fn(*mut c_void, *const PressureInfo) -> bool>;

impl OnPressure {
    fn has_freed(&self, pressure: &rmm_adaptors::Pressure<'_>) -> bool {
        let rmm_adaptors::Pressure { requested, missing, .. } = *pressure;
        let pressure = PressureInfo { size: size_of::<PressureInfo>(), requested, missing };
        // SAFETY: by the clause on callbacks, it may be called with this context until its release.
        let call = || unsafe { (self.function)(self.context, &raw const pressure) };
        guard::call_back(call).0
    }
}

/// Calls back when a request of the pool, or of the first one below the resource, is about to fail
/// for lack of memory, after everything else was tried. If the callback returns true the request is
/// tried again; each callback is called at most once for a request. It stays until
/// `rmm_rs_pressure_callback_release`, or the end of the pool. `release`, unless it is null, is
/// called with the context when no call of the callback is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_on_pressure(
    resource: *const ResourceHandle,
    callback: rmm_rs_pressure_function,
    context: *mut c_void,
    release: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
    out: *mut *mut Registered,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear_mut(out) };
    guard::status(|| {
        if out.is_null() {
            return Err(Failure::invalid("the place for the callback is null"));
        }
        let callback = callback.ok_or_else(|| Failure::invalid("the callback is null"))?;
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let pool = pool_in(unsafe { borrow(resource) }?)?;
        // SAFETY: the clause on callbacks.
        let on_pressure = unsafe { Callback::new(callback, context, release) };
        let guard = pool.on_pressure(move |pressure| on_pressure.has_freed(pressure));
        let registered = Box::into_raw(Box::new(Registered { _guard: guard }));
        // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
        unsafe { out.write(registered) };
        Ok(())
    })
}

/// Removes a callback. A call that another thread has begun may go on. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pressure_callback_release(callback: *mut Registered) {
    guard::value((), || {
        if !callback.is_null() {
            // SAFETY: it came from `Box::into_raw`, and by the clause on handles its only reference
            // ends here.
            drop(unsafe { Box::from_raw(callback) });
        }
    });
}
