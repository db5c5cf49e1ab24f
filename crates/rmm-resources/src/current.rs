//! The current resource of each device.

use std::sync::OnceLock;

use rmm_core::per_device::{self, DeviceEntry};
use rmm_core::{AnyResource, Device, DeviceResource, Error, process_is_exiting};

use crate::CudaMemoryResource;

type MakeFirst = Box<dyn Fn() -> Result<AnyResource, Error> + Send + Sync>;

/// What makes the first resource of a device, unless it is a [`CudaMemoryResource`].
static MAKE_FIRST: OnceLock<MakeFirst> = OnceLock::new();

/// Has a function make the first resource of each device, in place of a [`CudaMemoryResource`]: the
/// resource of a device for which none was set. The first call counts; returns whether this is it.
///
/// The function is called when a device's resource is asked for, replaced or reset, with the device
/// current and no lock held. If two threads ask at once it may run on both, and one of the two
/// resources is kept. If it fails, so does the call, and the next one asks it again. Devices that
/// have a resource already keep it.
///
/// For what the environment variable `RMM_RESOURCE` describes, call
/// `first_resource_from_environment` of `rmm-spec` instead.
///
/// ```standalone_crate
/// use rmm_core::{AnyResource, SynchronousResource};
/// use rmm_resources::{CudaAsyncMemoryResource, current_device_resource, first_resource_by};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// assert!(first_resource_by(|| CudaAsyncMemoryResource::new().map(AnyResource::new)));
/// assert_eq!(current_device_resource()?.name(), "cuda-async");
/// # Ok(())
/// # }
/// ```
pub fn first_resource_by(
    make: impl Fn() -> Result<AnyResource, Error> + Send + Sync + 'static,
) -> bool {
    MAKE_FIRST.set(Box::new(make)).is_ok()
}

/// A new first resource of a device.
fn first(device: Device) -> Result<AnyResource, Error> {
    let Some(make) = MAKE_FIRST.get() else {
        return Ok(AnyResource::new(CudaMemoryResource::new()));
    };
    let _current = device.make_current()?;
    make()
}

/// Sets a device's resource with what a binding needs with it, and returns the previous two.
fn replace(device: Device, current: DeviceEntry) -> Result<DeviceEntry, Error> {
    // Before anything changes, since it may fail.
    let first = if MAKE_FIRST.get().is_some() { Some(per_device_resource(device)?) } else { None };
    let previous = per_device::replace_with_handle(device, current)?;
    let initial = || first.unwrap_or_else(|| AnyResource::new(CudaMemoryResource::new()));
    Ok(previous.unwrap_or_else(|| (initial(), None)))
}

/// The current device's resource: the one that was set, or else the first one, which is a
/// [`CudaMemoryResource`] unless the program [says otherwise](first_resource_by). The returned
/// handle stays valid if another resource is set later. Briefly takes a lock that all devices
/// share.
///
/// ```
/// use rmm_resources::{CudaMemoryResource, current_device_resource};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// assert_eq!(current_device_resource()?.downcast_ref(), Some(&CudaMemoryResource::new()));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is no driver or no device.
#[doc(alias = "rmm::mr::get_current_device_resource_ref")]
pub fn current_device_resource() -> Result<AnyResource, Error> {
    per_device_resource(Device::current()?)
}

/// A device's resource, as [`current_device_resource`].
///
/// ```
/// use rmm_core::Device;
/// use rmm_resources::{ManagedMemoryResource, per_device_resource, set_per_device_resource};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::Machine::builder().devices(2).enter();
/// let second = Device::new(1)?;
/// set_per_device_resource(second, &ManagedMemoryResource::new())?;
/// assert_eq!(per_device_resource(second)?.downcast_ref(), Some(&ManagedMemoryResource::new()));
/// assert_ne!(per_device_resource(Device::new(0)?)?, per_device_resource(second)?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is no driver or no such device.
#[doc(alias = "rmm::mr::get_per_device_resource_ref")]
pub fn per_device_resource(device: Device) -> Result<AnyResource, Error> {
    per_device::get_with_handle(device, || first(device)).map(|(resource, _)| resource)
}

/// Sets the current device's resource, and returns the previous one.
///
/// Keeps a handle to the resource, a clone, until another is set or the process ends. Its memory
/// should belong to this device.
///
/// ```
/// use rmm_resources::{
///     CudaAsyncMemoryResource, current_device_resource, set_current_device_resource,
/// };
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let resource = CudaAsyncMemoryResource::new()?;
/// let before = set_current_device_resource(&resource)?;
/// assert_eq!(current_device_resource()?.downcast_ref(), Some(&resource));
/// set_current_device_resource(&before)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is no driver or no device.
#[doc(alias = "rmm::mr::set_current_device_resource")]
pub fn set_current_device_resource(resource: &impl DeviceResource) -> Result<AnyResource, Error> {
    set_per_device_resource(Device::current()?, resource)
}

/// Runs a function with a resource set as the current device's, and restores the previous one, also
/// if the function panics.
///
/// ```
/// use rmm_resources::{
///     ManagedMemoryResource, current_device_resource, with_current_device_resource,
/// };
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let before = current_device_resource()?;
/// let managed = ManagedMemoryResource::new();
/// let inside = with_current_device_resource(&managed, current_device_resource)??;
/// assert_eq!(inside.downcast_ref(), Some(&ManagedMemoryResource::new()));
/// assert_eq!(current_device_resource()?, before);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is no driver or no device; then the function does not run.
pub fn with_current_device_resource<T>(
    resource: &impl DeviceResource,
    function: impl FnOnce() -> T,
) -> Result<T, Error> {
    let _guard = CurrentResourceGuard::set(resource)?;
    Ok(function())
}

/// A guard that sets the current device's resource, and restores the previous one when it is
/// dropped: on the device that was current when the guard was created. Drop guards in the reverse
/// order of their creation.
///
/// ```
/// use rmm_resources::{CurrentResourceGuard, ManagedMemoryResource, current_device_resource};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let guard = CurrentResourceGuard::set(&ManagedMemoryResource::new())?;
/// assert_eq!(current_device_resource()?.downcast_ref(), Some(&ManagedMemoryResource::new()));
/// assert_ne!(guard.previous(), &current_device_resource()?);
/// drop(guard);
/// assert_ne!(current_device_resource()?.downcast_ref(), Some(&ManagedMemoryResource::new()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the resource is current only while the guard lives"]
pub struct CurrentResourceGuard {
    device: Device,
    previous: AnyResource,
    /// What a binding has set with it.
    handle: Option<per_device::Handle>,
}

impl CurrentResourceGuard {
    /// Sets the current device's resource until the guard is dropped.
    ///
    /// # Errors
    /// The errors of [`set_current_device_resource`].
    pub fn set(resource: &impl DeviceResource) -> Result<Self, Error> {
        let device = Device::current()?;
        let current = (AnyResource::of(resource), None);
        let (previous, handle) = replace(device, current)?;
        Ok(Self { device, previous, handle })
    }

    /// The previous resource, which is restored.
    pub fn previous(&self) -> &AnyResource {
        &self.previous
    }
}

impl Drop for CurrentResourceGuard {
    fn drop(&mut self) {
        if !process_is_exiting() {
            // A failure means that the driver is gone, so nothing allocates any more.
            let previous = (self.previous.clone(), self.handle.take());
            let _ignored = per_device::replace_with_handle(self.device, previous);
        }
    }
}

/// Sets a device's resource, and returns the previous one, as [`set_current_device_resource`].
///
/// ```
/// use rmm_core::Device;
/// use rmm_resources::{CudaMemoryResource, ManagedMemoryResource, set_per_device_resource};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let device = Device::current()?;
/// let before = set_per_device_resource(device, &ManagedMemoryResource::new())?;
/// assert_eq!(before.downcast_ref(), Some(&CudaMemoryResource::new()));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is no driver or no such device.
#[doc(alias = "rmm::mr::set_per_device_resource")]
pub fn set_per_device_resource(
    device: Device,
    resource: &impl DeviceResource,
) -> Result<AnyResource, Error> {
    let (previous, _) = replace(device, (AnyResource::of(resource), None))?;
    Ok(previous)
}

/// Resets the current device's resource to a new first one, which is a [`CudaMemoryResource`]
/// unless the program [says otherwise](first_resource_by), and returns the previous one.
///
/// ```
/// use rmm_core::SynchronousResource;
/// use rmm_resources::{
///     ManagedMemoryResource, current_device_resource, reset_current_device_resource,
///     set_current_device_resource,
/// };
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// set_current_device_resource(&ManagedMemoryResource::new())?;
/// let before = reset_current_device_resource()?;
/// assert_eq!(before.downcast_ref(), Some(&ManagedMemoryResource::new()));
/// assert_eq!(current_device_resource()?.name(), "cuda");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is no driver or no device.
#[doc(alias = "rmm::mr::reset_current_device_resource")]
pub fn reset_current_device_resource() -> Result<AnyResource, Error> {
    reset_per_device_resource(Device::current()?)
}

/// Resets a device's resource to a new first one, as [`reset_current_device_resource`].
///
/// ```
/// use rmm_core::{Device, SynchronousResource};
/// use rmm_resources::{
///     ManagedMemoryResource, per_device_resource, reset_per_device_resource,
///     set_per_device_resource,
/// };
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let device = Device::current()?;
/// set_per_device_resource(device, &ManagedMemoryResource::new())?;
/// assert_eq!(reset_per_device_resource(device)?.name(), "managed");
/// assert_eq!(per_device_resource(device)?.name(), "cuda");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is no driver or no such device.
#[doc(alias = "rmm::mr::reset_per_device_resource")]
pub fn reset_per_device_resource(device: Device) -> Result<AnyResource, Error> {
    set_per_device_resource(device, &first(device)?)
}
