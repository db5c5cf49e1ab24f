//! From a container to where its memory comes from.

use super::concept::SyncResource;

/// Something that allocates from a resource, and tells from which: a container, what a program
/// keeps its settings in, or a resource, which tells of itself.
///
/// ```
/// use rmm_core::{AnyResource, HasResource, SyncResource};
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
/// Pointers to a resource are resources, and tell of themselves. Code that is given a pointer to
/// something else asks what is behind it: `(**pointer).memory_resource()`, or just
/// `pointer.memory_resource()`.
#[doc(alias = "cuda::mr::get_memory_resource")]
#[doc(alias = "cuda::mr::get_memory_resource_t")]
#[doc(alias = "cuda::mr::memory_resource_base")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not tell which resource it allocates from",
    note = "resources and containers do, and so does whatever implements `HasResource`"
)]
pub trait HasResource {
    /// What the resource is known as.
    type Resource: SyncResource + ?Sized;

    /// The resource. Calls nothing.
    fn memory_resource(&self) -> &Self::Resource;
}

impl<R: SyncResource + ?Sized> HasResource for R {
    type Resource = R;

    fn memory_resource(&self) -> &R {
        self
    }
}
