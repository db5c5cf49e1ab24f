//! Access of other devices to a resource's memory.

use std::ffi::c_int;

use rmm_core::Device;

use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::status::Status;

/// Grants a device read and write access to all device memory of the resource and of those below
/// it, now and later: to virtual memory and to the driver's pools. Nothing happens to memory of
/// `cudaMalloc`, for which `cudaDeviceEnablePeerAccess` is enough. `RMM_RS_REFUSED` if the
/// device is not a peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_grant_access(
    resource: *const ResourceHandle,
    device: c_int,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let ordinal = usize::try_from(device)
            .map_err(|_| Failure::invalid(format!("there is no device {device}")))?;
        Ok(rmm_resources::grant_access(&resource.any, Device::new(ordinal)?)?)
    })
}
