//! Returning unused memory of a whole stack.

use rmm_core::{AnyResource, Introspect as _, SynchronousResource};

use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::library::clear_number;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::status::Status;

/// Whether the resource, or one in the tree below it, is a suballocator that can return memory.
pub fn holds_memory(resource: &(dyn SynchronousResource + 'static)) -> bool {
    let in_stack = |resource: &(dyn SynchronousResource + 'static)| {
        resource.as_trimmable().is_some()
            || resource.other_upstreams().into_iter().any(holds_memory)
    };
    resource.stack().any(in_stack)
}

/// Trims every suballocator of a stack. Refused if it has none.
pub(crate) fn of_stack(any: &AnyResource<()>, keep: u64, waits: bool) -> Result<u64, Failure> {
    if !holds_memory(any) {
        let text = "nothing in this stack holds memory that it could return";
        return Err(Failure::refused(text));
    }
    Ok(if waits { any.trim_blocking(keep) } else { any.trim(keep) })
}

/// Trims the stack of a resource of C.
///
/// # Safety
/// `resource` is null or live during the call; `released` is null or valid for a write.
unsafe fn trim(
    resource: *const ResourceHandle,
    keep: u64,
    waits: bool,
    released: *mut u64,
) -> Status {
    // SAFETY: the caller's contract.
    unsafe { clear_number(released) };
    guard::status(|| {
        // SAFETY: the caller's contract.
        let resource = unsafe { borrow(resource) }?;
        let bytes = of_stack(&resource.any, keep, waits)?;
        if !released.is_null() {
            // SAFETY: the caller's contract.
            unsafe { released.write(bytes) };
        }
        Ok(())
    })
}

/// Returns memory that the resource and those below it do not use, until each has no more than
/// `keep` bytes reserved or the rest is in use. Stores the bytes that left the stack in `released`,
/// unless it is null. Does not wait for work of the device: memory whose last use may not be over
/// stays. `RMM_RS_REFUSED` if nothing in the stack can return memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_trim(
    resource: *const ResourceHandle,
    keep: u64,
    released: *mut u64,
) -> Status {
    // SAFETY: by the clauses on handles and pointers, for `resource` and `released`.
    unsafe { trim(resource, keep, false, released) }
}

/// As `rmm_rs_resource_trim`, after a wait of this thread for the work that comes before frees, if
/// some of it is pending.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_trim_blocking(
    resource: *const ResourceHandle,
    keep: u64,
    released: *mut u64,
) -> Status {
    // SAFETY: by the clauses on handles and pointers, for `resource` and `released`.
    unsafe { trim(resource, keep, true, released) }
}
