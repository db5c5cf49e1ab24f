//! The current resource of each device.
//!
//! It is this library's: RMM, or a Rust program, in the same process has its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rmm_core::{AnyResource, Device, fork, per_device};
use rmm_resources::{CudaMemoryResource, per_device_resource};

use crate::failure::Failure;
use crate::guard;
use crate::library::clear;
use crate::resource::{self, Resource, borrow};
use crate::status::Status;

/// What was set here, with the stream policies, of which the registry under it knows nothing.
static HANDLES: Mutex<BTreeMap<usize, Arc<Resource>>> = Mutex::new(BTreeMap::new());

fn handles() -> MutexGuard<'static, BTreeMap<usize, Arc<Resource>>> {
    fork::lock(&HANDLES)
}

/// The handle of a device's resource.
fn handle_of(device: Device, current: AnyResource<()>) -> Arc<Resource> {
    let known = handles().get(&device.ordinal()).cloned();
    known.filter(|known| known.any == current).unwrap_or_else(|| Arc::new(Resource::base(current)))
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
    out: *mut *const Resource,
) -> Status {
    let find = || {
        let device = self::device(device)?;
        Ok(handle_of(device, per_device_resource(device)?.narrow()))
    };
    // SAFETY: the crate's contract.
    unsafe { resource::make_shared(out, find) }
}

/// Sets the resource of a device, to which the registry keeps a reference. Stores a reference to
/// the one before, unless `previous` is null.
///
/// Source: `rmm::mr::set_per_device_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_set_per_device_resource(
    device: i32,
    resource: *const Resource,
    previous: *mut *const Resource,
) -> Status {
    // SAFETY: the crate's contract.
    unsafe { clear(previous) };
    guard::status(|| {
        // SAFETY: the crate's contract.
        let resource = unsafe { borrow(resource) }?;
        let device = self::device(device)?;
        let before = per_device::replace(device, resource.of_device()?)?;
        let before = before.unwrap_or_else(|| AnyResource::new(CudaMemoryResource::new()));
        let before = handle_of(device, before.narrow());
        let handle = Arc::new(resource.below(resource.any.clone()));
        let replaced = handles().insert(device.ordinal(), handle);
        drop(replaced);
        if previous.is_null() {
            return Ok(());
        }
        // SAFETY: the crate's contract.
        unsafe { resource::give(before, previous) }
    })
}

/// Sets the resource of a device to the first one, over `cudaMalloc`.
///
/// Source: `rmm::mr::reset_per_device_resource`.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_reset_per_device_resource(device: i32) -> Status {
    guard::status(|| {
        let first = AnyResource::new(CudaMemoryResource::new());
        let device = self::device(device)?;
        let before = per_device::replace(device, first)?;
        let handle = handles().remove(&device.ordinal());
        drop((before, handle));
        Ok(())
    })
}
