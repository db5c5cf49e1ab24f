//! Resources whose type is forgotten, but not what their memory can do.

use std::alloc::Layout;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::{
    DeviceAccessible, DevicePtr, Error, HasProperty, HostAccessible, Property, Resource, StreamRef,
    SyncResource,
};

/// What can still be asked after the type is erased.
trait Erased: Resource {
    fn as_any(&self) -> &dyn Any;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<R: Resource + PartialEq + 'static> Erased for R {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<R>().is_some_and(|other| self == other)
    }
}

/// An owned resource of any type, whose memory has the property `P`. Clones are the same resource.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{AnyResource, SyncResource};
/// use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let plain: AnyResource = AnyResource::new(CudaMemoryResource::new());
/// let pooled: AnyResource = AnyResource::new(CudaAsyncMemoryResource::new()?);
/// let layout = Layout::from_size_align(1000, 256)?;
/// for resource in [&plain, &pooled] {
///     let pointer = resource.allocate_sync(layout)?;
///     // SAFETY: allocated above with this layout, and not used.
///     unsafe { resource.deallocate_sync(pointer, layout) };
/// }
/// // Equal means that memory from one may be freed by the other; the type can be found again.
/// assert_eq!(pooled, pooled.clone());
/// assert_ne!(plain, pooled);
/// assert_eq!(plain.downcast_ref(), Some(&CudaMemoryResource::new()));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuda::mr::any_resource")]
pub struct AnyResource<P: Property = DeviceAccessible> {
    resource: Arc<dyn Erased>,
    property: PhantomData<P>,
}

impl<P: Property> AnyResource<P> {
    /// Takes the resource in.
    pub fn new<R: Resource + HasProperty<P> + PartialEq + 'static>(resource: R) -> Self {
        // An `AnyResource` is itself a resource; wrapping it again would only add a step to every call.
        let resource = match (&resource as &dyn Any).downcast_ref::<Self>() {
            Some(same) => Arc::clone(&same.resource),
            None => Arc::new(resource),
        };
        Self { resource, property: PhantomData }
    }

    /// A handle to the same resource: the resource's own clone, taken in.
    pub fn of<R: Resource + HasProperty<P> + Clone + PartialEq + 'static>(resource: &R) -> Self {
        Self::new(resource.clone())
    }

    /// The resource, if it is of this type.
    pub fn downcast_ref<R: 'static>(&self) -> Option<&R> {
        self.resource.as_any().downcast_ref()
    }

    /// The resource, borrowed.
    pub fn as_ref(&self) -> ResourceRef<'_, P> {
        ResourceRef { resource: &*self.resource, property: PhantomData }
    }
}

impl<P: Property> Clone for AnyResource<P> {
    fn clone(&self) -> Self {
        Self { resource: Arc::clone(&self.resource), property: PhantomData }
    }
}

impl<P: Property> PartialEq for AnyResource<P> {
    /// Whether memory from one may be freed by the other.
    fn eq(&self, other: &Self) -> bool {
        self.resource.equals(other.resource.as_any())
    }
}

impl<P: Property> Eq for AnyResource<P> {}

impl<P: Property> fmt::Debug for AnyResource<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyResource").field(&self.resource).finish()
    }
}

// SAFETY: every call goes to the one resource inside, which keeps the contract.
unsafe impl<P: Property> SyncResource for AnyResource<P> {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.resource.allocate_sync(layout)
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.resource.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        self.resource.name()
    }
}

// SAFETY: as above.
unsafe impl<P: Property> Resource for AnyResource<P> {
    fn allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.resource.allocate(stream, layout)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.resource.deallocate(stream, pointer, layout) }
    }
}

// SAFETY: only a resource with the property is ever taken in.
unsafe impl<P: Property> HasProperty<P> for AnyResource<P> {}

/// A borrowed resource of any type, whose memory has the property `P`.
///
/// ```
/// use rmm_core::{DeviceResourceRef, SyncResource};
/// use rmm_resources::CudaMemoryResource;
///
/// let resource = CudaMemoryResource::new();
/// let borrowed = DeviceResourceRef::new(&resource);
/// assert_eq!(borrowed.name(), "cuda");
/// ```
///
/// A resource that lacks the property does not become one:
///
/// ```compile_fail,E0277
/// use rmm_core::HostResourceRef;
/// use rmm_resources::CudaMemoryResource;
///
/// let resource = CudaMemoryResource::new();
/// let borrowed = HostResourceRef::new(&resource);
/// ```
#[doc(alias = "cuda::mr::resource_ref")]
#[doc(alias = "rmm::device_async_resource_ref")]
#[derive(Clone, Copy)]
pub struct ResourceRef<'a, P: Property = DeviceAccessible> {
    resource: &'a dyn Resource,
    property: PhantomData<P>,
}

/// A borrowed resource whose memory work on the device may use.
#[doc(alias = "rmm::device_resource_ref")]
pub type DeviceResourceRef<'a> = ResourceRef<'a, DeviceAccessible>;

/// A borrowed resource whose memory the host may use.
#[doc(alias = "rmm::host_resource_ref")]
pub type HostResourceRef<'a> = ResourceRef<'a, HostAccessible>;

impl<'a, P: Property> ResourceRef<'a, P> {
    /// Borrows the resource.
    pub fn new<R: Resource + HasProperty<P>>(resource: &'a R) -> Self {
        Self { resource, property: PhantomData }
    }
}

impl<'a, P: Property, R: Resource + HasProperty<P>> From<&'a R> for ResourceRef<'a, P> {
    fn from(resource: &'a R) -> Self {
        Self::new(resource)
    }
}

impl<P: Property> fmt::Debug for ResourceRef<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourceRef").field(&self.resource).finish()
    }
}

// SAFETY: every call goes to the one resource behind the reference, which keeps the contract.
unsafe impl<P: Property> SyncResource for ResourceRef<'_, P> {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.resource.allocate_sync(layout)
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.resource.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        self.resource.name()
    }
}

// SAFETY: as above.
unsafe impl<P: Property> Resource for ResourceRef<'_, P> {
    fn allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.resource.allocate(stream, layout)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.resource.deallocate(stream, pointer, layout) }
    }
}

// SAFETY: only a resource with the property is ever borrowed.
unsafe impl<P: Property> HasProperty<P> for ResourceRef<'_, P> {}
