//! The resource that each device uses where none is named.
//!
//! Devices are told apart by their UUID, so that a software device never finds the resource of
//! another one. Resources that are set here stay alive until they are replaced; what is left at the
//! end of the process is not dropped, so that nothing calls a driver that is already gone.
//!
//! Which resource a device starts with is not this crate's to know: it is given by whoever asks.
//! The functions that users call, with the driver's plain allocator as the first resource, are in
//! `rmm-resources`.
//!
//! ```
//! use rmm_core::{AnyResource, Device, per_device};
//! use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
//!
//! # fn main() -> Result<(), rmm_core::Error> {
//! # let machine = rmm_sim::Machine::new();
//! # let _entered = machine.enter();
//! let device = Device::current()?;
//! let first = per_device::get_or_insert_with(device, || AnyResource::new(CudaMemoryResource::new()))?;
//! let before = per_device::replace(device, AnyResource::new(CudaAsyncMemoryResource::new()?))?;
//! assert_eq!(before, Some(first));
//! # Ok(())
//! # }
//! ```

use std::sync::{Mutex, PoisonError};

use rmm_sys::CuUuid;

use crate::{AnyResource, Device, Error};

/// The devices whose resource was asked for or set: a handful at most.
static RESOURCES: Mutex<Vec<(CuUuid, AnyResource)>> = Mutex::new(Vec::new());

/// The device's resource; `initial` is asked for the first one, which is then kept. It runs while
/// no lock is held; where two threads ask at once it may run on both, and both get the one that was
/// kept.
///
/// # Errors
/// If the driver refuses to tell who the device is.
#[doc(alias = "rmm::mr::get_per_device_resource_ref")]
pub fn get_or_insert_with(
    device: Device,
    initial: impl FnOnce() -> AnyResource,
) -> Result<AnyResource, Error> {
    let uuid = device.uuid()?;
    let find = |resources: &[(CuUuid, AnyResource)]| {
        resources.iter().find(|(known, _)| *known == uuid).map(|(_, resource)| resource.clone())
    };
    if let Some(resource) = find(&lock()) {
        return Ok(resource);
    }
    // Made without the lock: a constructor may ask for a device's resource itself.
    let made = initial();
    let mut resources = lock();
    if let Some(resource) = find(&resources) {
        return Ok(resource);
    }
    resources.push((uuid, made.clone()));
    Ok(made)
}

/// Sets the device's resource and returns the one before, if there was one. Whoever asked for that
/// one keeps it.
///
/// # Errors
/// If the driver refuses to tell who the device is.
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
    RESOURCES.lock().unwrap_or_else(PoisonError::into_inner)
}
