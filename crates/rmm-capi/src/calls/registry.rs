//! The current resource of each device.
//!
//! It is this library's: RMM, or a Rust program, in the same process has its own.

use std::sync::Arc;

use rmm_core::per_device::{self, DeviceEntry};
use rmm_core::{AnyResource, Device};
use rmm_resources::CudaMemoryResource;

use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::library::clear;
use crate::handle::resource::{self, ResourceHandle, borrow};
use crate::handle::status::Status;

/// The handle of a device's resource: the one that was set here, which has its stream policy.
fn handle_of((resource, handle): DeviceEntry) -> Arc<ResourceHandle> {
    let known = handle.and_then(|handle| handle.downcast().ok());
    known.unwrap_or_else(|| Arc::new(ResourceHandle::base(resource.narrow())))
}

fn first() -> AnyResource {
    AnyResource::new(CudaMemoryResource::new())
}

fn device(ordinal: i32) -> Result<Device, Failure> {
    let known = usize::try_from(ordinal);
    let ordinal = known.map_err(|_| Failure::invalid(format!("there is no device {ordinal}")))?;
    Ok(Device::new(ordinal)?)
}

/// Stores a new reference to the resource of a device: the one that was set, or else one over
/// `cudaMalloc`.
///
/// Source: `rmm::mr::get_per_device_resource_ref`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_get_per_device_resource(
    device: i32,
    out: *mut *const ResourceHandle,
) -> Status {
    let find = || {
        let device = self::device(device)?;
        Ok(handle_of(per_device::get_with_handle(device, || Ok(first()))?))
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make_shared(out, find) }
}

/// Sets the resource of a device, to which the registry keeps a reference. Stores a reference to
/// the one before, unless `previous` is null.
///
/// Source: `rmm::mr::set_per_device_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_set_per_device_resource(
    device: i32,
    resource: *const ResourceHandle,
    previous: *mut *const ResourceHandle,
) -> Status {
    // SAFETY: by the clause on pointers, `previous` is null or valid for a write.
    unsafe { clear(previous) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let device = self::device(device)?;
        let handle = Arc::new(resource.below(resource.any.clone()));
        let current = (resource.of_device()?, Some(handle as _));
        let before = per_device::replace_with_handle(device, current)?;
        let before = handle_of(before.unwrap_or_else(|| (first(), None)));
        if previous.is_null() {
            return Ok(());
        }
        // SAFETY: by the clause on pointers, `previous` is null or valid for a write.
        unsafe { resource::give(before, previous) }
    })
}

/// Sets the resource of a device to the first one, over `cudaMalloc`.
///
/// Source: `rmm::mr::reset_per_device_resource`.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_reset_per_device_resource(device: i32) -> Status {
    guard::status(|| {
        let before = per_device::replace(self::device(device)?, first())?;
        drop(before);
        Ok(())
    })
}
