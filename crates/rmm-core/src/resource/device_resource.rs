//! The bound for resources that containers keep a handle to.

use super::concept::Resource;
use crate::property::{DeviceAccessible, HasProperty};

/// A device resource that containers can keep a handle to: a clone is the same resource.
///
/// Implemented for every type that satisfies the bounds.
///
/// ```
/// use rmm_core::{AnyResource, DeviceResource};
/// use rmm_resources::CudaMemoryResource;
///
/// fn keep(resource: &impl DeviceResource) -> AnyResource {
///     AnyResource::of(resource)
/// }
/// let kept = keep(&CudaMemoryResource::new());
/// assert_eq!(keep(&kept), kept);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no resource for device memory that containers can keep",
    note = "it has to implement `Resource`, `HasProperty<DeviceAccessible>`, `Clone` and `PartialEq`, and borrow nothing"
)]
pub trait DeviceResource:
    Resource + HasProperty<DeviceAccessible> + Clone + PartialEq + 'static
{
}

impl<R: Resource + HasProperty<DeviceAccessible> + Clone + PartialEq + 'static> DeviceResource
    for R
{
}
