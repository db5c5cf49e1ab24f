//! Memory that is set aside in a pool.

use rmm_core::AnyResource;

use crate::calls::pool::store_of;
use crate::handle::failure::Failure;
use crate::handle::find;
use crate::handle::guard;
use crate::handle::library::clear_number;
use crate::handle::resource::{self, ResourceHandle, borrow};
use crate::handle::status::Status;

/// Sets `bytes` bytes aside in the pool, or the first one below the resource, as one contiguous
/// block: the resource that is stored serves requests from it, which cannot fail up to its bytes.
/// They count as live. A free returns memory to the pool, and never to the reservation. What
/// remains goes back to the pool when the last reference is released, or by
/// `rmm_rs_reservation_release`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_reserve(
    resource: *const ResourceHandle,
    bytes: u64,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let reserved = find::pool_in(resource)?.reserve(bytes).map(AnyResource::new);
        Ok(resource.below(reserved.map_err(|error| Failure::of_allocation(&error))?))
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// Stores the bytes that can still be allocated from a reservation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_reservation_remaining(
    reservation: *const ResourceHandle,
    out: *mut u64,
) -> Status {
    let number = |resource: &ResourceHandle| Ok(find::reservation(resource)?.remaining());
    // SAFETY: by the clauses on handles and pointers, for `reservation` and `out`.
    unsafe { store_of(reservation, out, number) }
}

/// Returns what remains of a reservation to the pool now, also if others have references to it.
/// Stores the bytes in `released`, unless it is null. Its blocks stay allocated; further requests
/// fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_reservation_release(
    reservation: *const ResourceHandle,
    released: *mut u64,
) -> Status {
    // SAFETY: by the clause on pointers, `released` is null or valid for a write.
    unsafe { clear_number(released) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `reservation` is null or live during the call.
        let bytes = find::reservation(unsafe { borrow(reservation) }?)?.release();
        if !released.is_null() {
            // SAFETY: by the clause on pointers, `released` is valid for a write; it is not null.
            unsafe { released.write(bytes) };
        }
        Ok(())
    })
}
