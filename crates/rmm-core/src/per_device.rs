//! The current resource of each device.
//!
//! Devices are identified by UUID, so that a software device never gets the resource of another
//! one. Resources set here stay alive until they are replaced; at the end of the process they are
//! not dropped, so that none calls a driver that is already gone.
//!
//! The caller passes the initial resource. The functions for users, with `cudaMalloc` as the
//! initial resource, are in `rmm-resources`.
//!
//! ```
//! use rmm_core::{AnyResource, Device, per_device};
//! use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
//!
//! # fn main() -> Result<(), rmm_core::Error> {
//! # let machine = rmm_sim::Machine::new();
//! # let _entered = machine.enter();
//! let device = Device::current()?;
//! let initial = || AnyResource::new(CudaMemoryResource::new());
//! let first = per_device::get_or_insert_with(device, initial)?;
//! let before = per_device::replace(device, AnyResource::new(CudaAsyncMemoryResource::new()?))?;
//! assert_eq!(before, Some(first));
//! # Ok(())
//! # }
//! ```

use std::sync::Mutex;

use rmm_sys::CuUuid;

use crate::{AnyResource, Device, Error, fork};

/// The devices whose resource was read or set: a handful at most.
static RESOURCES: Mutex<Vec<(CuUuid, AnyResource)>> = Mutex::new(Vec::new());

/// The device's resource; if there is none, that of `initial`, which is then kept. `initial` runs
/// without a lock; if two threads call at once it may run on both, and both get the resource that
/// was kept.
///
/// # Errors
/// If the driver refuses the query for the device.
#[doc(alias = "rmm::mr::get_per_device_resource_ref")]
pub fn get_or_insert_with(
    device: Device,
    initial: impl FnOnce() -> AnyResource,
) -> Result<AnyResource, Error> {
    try_get_or_insert_with(device, || Ok(initial()))
}

/// As [`get_or_insert_with`], where `initial` can fail; then nothing is kept.
///
/// # Errors
/// If the driver refuses the query for the device, or `initial` fails.
#[doc(hidden)]
pub fn try_get_or_insert_with(
    device: Device,
    initial: impl FnOnce() -> Result<AnyResource, Error>,
) -> Result<AnyResource, Error> {
    let uuid = device.uuid()?;
    if let Some(resource) = find(uuid) {
        return Ok(resource);
    }
    // Runs without the lock: a constructor may read a device's resource itself.
    let made = initial()?;
    let mut resources = lock();
    if let Some(resource) = find_in(&resources, uuid) {
        return Ok(resource);
    }
    resources.push((uuid, made.clone()));
    Ok(made)
}

/// The resource of the device with this UUID, if there is one. Calls no driver.
#[doc(hidden)]
#[must_use]
pub fn find(uuid: CuUuid) -> Option<AnyResource> {
    find_in(&lock(), uuid)
}

fn find_in(resources: &[(CuUuid, AnyResource)], uuid: CuUuid) -> Option<AnyResource> {
    resources.iter().find(|(known, _)| *known == uuid).map(|(_, resource)| resource.clone())
}

/// Sets the device's resource and returns the previous one, if any. Handles to the previous one
/// stay valid.
///
/// # Errors
/// If the driver refuses the query for the device.
#[doc(alias = "rmm::mr::set_per_device_resource")]
pub fn replace(device: Device, resource: AnyResource) -> Result<Option<AnyResource>, Error> {
    let uuid = device.uuid()?;
    let mut resources = lock();
    if let Some((_, slot)) = resources.iter_mut().find(|(known, _)| *known == uuid) {
        return Ok(Some(std::mem::replace(slot, resource)));
    }
    resources.push((uuid, resource));
    Ok(None)
}

fn lock() -> std::sync::MutexGuard<'static, Vec<(CuUuid, AnyResource)>> {
    fork::lock(&RESOURCES)
}
