//! The upstream of a resource, as a handle.

use std::sync::Arc;

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{AnyResource, Introspect as _};

use crate::calls::callbacks::Foreign;
use crate::handle::failure::Failure;
use crate::handle::resource::{ResourceHandle, borrow, give};
use crate::handle::status::Status;
use crate::handle::{guard, library};

/// The resource that this one takes its memory from.
fn upstream_of(resource: &ResourceHandle) -> Option<AnyResource<()>> {
    let upstream = resource.any.upstream_resource()?.as_any();
    // What this crate and the specifications stack is of one of these types.
    let any = upstream.downcast_ref::<AnyResource<()>>().cloned();
    let device = || upstream.downcast_ref::<AnyResource>().cloned().map(AnyResource::narrow);
    // One without stream order is used through `Synchronized` alone.
    let foreign = upstream.downcast_ref::<Foreign>().filter(|foreign| foreign.is_ordered());
    let of_other = || foreign.map(AnyResource::of);
    // That of a reservation.
    let pool = || upstream.downcast_ref::<PoolMemoryResource<()>>().map(AnyResource::of);
    any.or_else(device).or_else(of_other).or_else(pool)
}

/// Stores a new reference to the upstream of the resource, or null if it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_upstream(
    resource: *const ResourceHandle,
    out: *mut *const ResourceHandle,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { library::clear(out) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        if out.is_null() {
            return Err(Failure::invalid("the place for the upstream is null"));
        }
        match upstream_of(resource) {
            // SAFETY: by the clause on pointers, `out` is null or valid for a write.
            Some(upstream) => unsafe { give(Arc::new(resource.below(upstream)), out) },
            None => Ok(()),
        }
    })
}
