//! The resource that a device uses where none is named.

use rmm_core::{AnyResource, Device, DeviceResource, Error, per_device};

use crate::CudaMemoryResource;

fn initial() -> AnyResource {
    AnyResource::new(CudaMemoryResource::new())
}

/// The current device's resource: the one that was set, or else a [`CudaMemoryResource`]. The
/// result stays valid whatever is set later. Takes a lock for a moment, which all devices share.
///
/// ```
/// use rmm_resources::{CudaMemoryResource, current_device_resource};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
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
/// # let machine = rmm_sim::Machine::builder().devices(2).build();
/// # let _entered = machine.enter();
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

/// Makes a resource the current device's, and returns the one before.
///
/// A handle to the resource is kept: its own clone, to the end of the process unless another is
/// set. It should be one for this device's memory.
///
/// ```
/// use rmm_resources::{CudaAsyncMemoryResource, current_device_resource, set_current_device_resource};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
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

/// Makes a resource that of a device, and returns the one before, as
/// [`set_current_device_resource`].
///
/// ```
/// use rmm_core::Device;
/// use rmm_resources::{CudaMemoryResource, ManagedMemoryResource, set_per_device_resource};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
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

/// Goes back to a [`CudaMemoryResource`] on the current device, and returns the resource before.
///
/// ```
/// use rmm_core::SyncResource;
/// use rmm_resources::{
///     ManagedMemoryResource, current_device_resource, reset_current_device_resource,
///     set_current_device_resource,
/// };
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
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

/// Goes back to a [`CudaMemoryResource`] on a device, and returns the resource before.
///
/// ```
/// use rmm_core::{Device, SyncResource};
/// use rmm_resources::{
///     ManagedMemoryResource, per_device_resource, reset_per_device_resource, set_per_device_resource,
/// };
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
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
