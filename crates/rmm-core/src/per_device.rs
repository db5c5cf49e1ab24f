//! The current resource of each device.
//!
//! Devices are identified by UUID, so that a software device never gets the resource of another
//! one. Resources set here stay alive until they are replaced; at the end of the process they are
//! not dropped, so that none calls a driver that is already gone.
//!
//! The caller passes the initial resource. The functions for users, with `cudaMalloc` as the
//! initial resource, are in `rmm-resources`. The C interface uses this registry too, and keeps its
//! handle to a resource beside it.
//!
//! ```
//! use rmm_core::{AnyResource, Device, per_device};
//! use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
//!
//! # fn main() -> Result<(), rmm_core::Error> {
//! # let _machine = rmm_sim::enter();
//! let device = Device::current()?;
//! let initial = || AnyResource::new(CudaMemoryResource::new());
//! let first = per_device::get_or_insert_with(device, initial)?;
//! let before = per_device::replace(device, AnyResource::new(CudaAsyncMemoryResource::new()?))?;
//! assert_eq!(before, Some(first));
//! # Ok(())
//! # }
//! ```

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};

use rmm_sys::CuUuid;

use crate::{AnyResource, Device, Error, fork};

/// What a binding needs with a resource that it has set.
#[doc(hidden)]
pub type Handle = Arc<dyn Any + Send + Sync>;

/// A device's resource, and the handle that a binding has set with it.
#[doc(hidden)]
pub type DeviceEntry = (AnyResource, Option<Handle>);

/// The devices whose resource was read or set: a handful at most.
static RESOURCES: Mutex<Vec<(CuUuid, DeviceEntry)>> = Mutex::new(Vec::new());

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
    get_with_handle(device, || Ok(initial())).map(|(resource, _)| resource)
}

/// The device's resource, with the handle that a binding has set with it; if there is none, that of
/// `initial`, which is then kept unless it fails. Otherwise as [`get_or_insert_with`].
///
/// # Errors
/// If the driver refuses the query for the device, or `initial` fails.
#[doc(hidden)]
pub fn get_with_handle(
    device: Device,
    initial: impl FnOnce() -> Result<AnyResource, Error>,
) -> Result<DeviceEntry, Error> {
    let uuid = device.uuid()?;
    if let Some(current) = find_in(&lock(), uuid) {
        return Ok(current.clone());
    }
    // Runs without the lock: a constructor may read a device's resource itself.
    let made = (initial()?, None);
    let mut resources = lock();
    if let Some(current) = find_in(&resources, uuid) {
        return Ok(current.clone());
    }
    resources.push((uuid, made.clone()));
    Ok(made)
}

/// The resource of the device with this UUID, if there is one. Calls no driver.
#[doc(hidden)]
#[must_use]
pub fn find(uuid: CuUuid) -> Option<AnyResource> {
    find_in(&lock(), uuid).map(|(resource, _)| resource.clone())
}

/// The resources of all devices for which one was read or set. Calls no driver.
#[doc(hidden)]
#[must_use]
pub fn all() -> Vec<AnyResource> {
    lock().iter().map(|(_, (resource, _))| resource.clone()).collect()
}

fn find_in(resources: &[(CuUuid, DeviceEntry)], uuid: CuUuid) -> Option<&DeviceEntry> {
    resources.iter().find(|(known, _)| *known == uuid).map(|(_, current)| current)
}

/// Sets the device's resource and returns the previous one, if any. Handles to the previous one
/// stay valid.
///
/// # Errors
/// If the driver refuses the query for the device.
#[doc(alias = "rmm::mr::set_per_device_resource")]
pub fn replace(device: Device, resource: AnyResource) -> Result<Option<AnyResource>, Error> {
    let previous = replace_with_handle(device, (resource, None))?;
    Ok(previous.map(|(resource, _)| resource))
}

/// Sets the device's resource, with the handle that a binding needs with it, and returns the
/// previous two, if any.
///
/// # Errors
/// The errors of [`replace`].
#[doc(hidden)]
pub fn replace_with_handle(
    device: Device,
    current: DeviceEntry,
) -> Result<Option<DeviceEntry>, Error> {
    let uuid = device.uuid()?;
    let mut resources = lock();
    if let Some((_, slot)) = resources.iter_mut().find(|(known, _)| *known == uuid) {
        return Ok(Some(std::mem::replace(slot, current)));
    }
    resources.push((uuid, current));
    Ok(None)
}

fn lock() -> MutexGuard<'static, Vec<(CuUuid, DeviceEntry)>> {
    fork::lock(&RESOURCES)
}
