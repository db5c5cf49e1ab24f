//! The current resource of each device.

use rmm_core::{AnyResource, Device, DeviceResource, Error, per_device, process_is_exiting};

use crate::CudaMemoryResource;

fn initial() -> AnyResource {
    AnyResource::new(CudaMemoryResource::new())
}

/// The current device's resource: the one that was set, or else a [`CudaMemoryResource`]. The
/// returned handle stays valid if another resource is set later. Briefly takes a lock that all
/// devices share.
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
    per_device::get_or_insert_with(device, initial)
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
        let previous = per_device::replace_with_handle(device, current)?;
        let (previous, handle) = previous.unwrap_or_else(|| (initial(), None));
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
    Ok(per_device::replace(device, AnyResource::of(resource))?.unwrap_or_else(initial))
}

/// Resets the current device's resource to a [`CudaMemoryResource`], and returns the previous one.
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

/// Resets a device's resource to a [`CudaMemoryResource`], and returns the previous one.
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
    set_per_device_resource(device, &CudaMemoryResource::new())
}
