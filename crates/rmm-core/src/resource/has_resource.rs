//! Access to the resource of a container.

use super::concept::SynchronousResource;

/// A type that allocates from a resource and gives access to it, such as a container. A resource
/// returns itself.
///
/// ```
/// use rmm_core::{AnyResource, HasResource, SynchronousResource};
/// use rmm_resources::CudaMemoryResource;
///
/// struct Settings {
///     scratch: AnyResource,
/// }
/// impl HasResource for Settings {
///     type Resource = AnyResource;
///     fn memory_resource(&self) -> &AnyResource {
///         &self.scratch
///     }
/// }
///
/// fn source(of: &impl HasResource) -> &'static str {
///     of.memory_resource().name()
/// }
///
/// let resource = CudaMemoryResource::new();
/// assert_eq!(source(&resource), "cuda");
/// assert_eq!(source(&Settings { scratch: AnyResource::of(&resource) }), "cuda");
/// ```
///
/// Pointers to a resource are resources, and return themselves. For a pointer to another type write
/// `(**pointer).memory_resource()`, or just `pointer.memory_resource()`.
#[doc(alias = "cuda::mr::get_memory_resource")]
#[doc(alias = "cuda::mr::get_memory_resource_t")]
#[doc(alias = "cuda::mr::memory_resource_base")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` gives no access to the resource that it allocates from",
    note = "resources and containers do, and so does every type that implements `HasResource`"
)]
pub trait HasResource {
    /// The type of the resource.
    type Resource: SynchronousResource + ?Sized;

    /// The resource.
    fn memory_resource(&self) -> &Self::Resource;
}

impl<R: SynchronousResource + ?Sized> HasResource for R {
    type Resource = R;

    fn memory_resource(&self) -> &R {
        self
    }
}
