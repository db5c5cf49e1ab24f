//! Borrowed type-erased resources.

use std::fmt;
use std::marker::PhantomData;

use super::compare::{downcast, is_same, not_a_handle};
use super::order::ErasableAs;
use crate::property::Exactly;
use crate::resource::{Order, delegate_resource, delegate_sync};
use crate::{
    AnyResource, AsDyn, Contains, DeviceAccessible, Error, HasProperty, HostAccessible,
    HostDeviceAccessible, Introspect, Property, PropertySet, SatisfiedBy, StreamOrdered,
    Synchronous, SynchronousResource,
};

/// A borrowed resource of any type, whose memory has every property in the set `S`. Copying it
/// costs nothing.
///
/// The resource's type must be `'static`, so that it can be recovered by a downcast.
///
/// ```
/// use rmm_core::{DeviceAsyncResourceRef, SynchronousResource};
/// use rmm_resources::CudaMemoryResource;
///
/// let resource = CudaMemoryResource::new();
/// let borrowed = DeviceAsyncResourceRef::new(&resource);
/// assert_eq!(borrowed.name(), "cuda");
/// assert_eq!(borrowed.downcast_ref(), Some(&resource));
/// ```
///
/// A resource that lacks a property of the set is refused at compile time:
///
/// ```compile_fail,E0277
/// use rmm_core::HostAsyncResourceRef;
/// use rmm_resources::CudaMemoryResource;
///
/// let resource = CudaMemoryResource::new();
/// let borrowed = HostAsyncResourceRef::new(&resource);
/// ```
///
/// Its calls are in the order `O`: with a stream, unless it is a
/// [`SynchronousResourceRef`](crate::SynchronousResourceRef).
#[doc(alias = "cuda::mr::resource_ref")]
pub struct ResourceRef<'a, S: PropertySet = DeviceAccessible, O: Order = StreamOrdered> {
    /// # Invariant
    /// Its memory has every property in `S`.
    resource: &'a O::Dyn,
    set: Exactly<S>,
}

/// A borrowed resource of any type, as [`ResourceRef`](crate::ResourceRef), with the synchronous
/// calls only.
///
/// ```
/// use rmm_core::{DeviceAsyncResourceRef, DeviceResourceRef};
/// use rmm_resources::CudaMemoryResource;
///
/// let resource = CudaMemoryResource::new();
/// let ordered = DeviceAsyncResourceRef::new(&resource);
/// let synchronous: DeviceResourceRef<'_> = ordered.into();
/// assert!(synchronous.is_equal(&resource));
/// ```
#[doc(alias = "cuda::mr::synchronous_resource_ref")]
pub type SynchronousResourceRef<'a, S = DeviceAccessible> = ResourceRef<'a, S, Synchronous>;

impl<'a, S: PropertySet, O: Order> ResourceRef<'a, S, O> {
    /// Borrows the resource; if it is an [`AnyResource`], the one that it holds.
    pub fn new<R>(resource: &'a R) -> Self
    where
        R: ErasableAs<O>,
        S: SatisfiedBy<R>,
    {
        // SAFETY: the set is satisfied by `R`, and the memory is that of this resource.
        unsafe { Self::from_dyn(resource.innermost()) }
    }

    /// Borrows the resource in an `Option`.
    ///
    /// ```
    /// use rmm_core::DeviceAsyncResourceRef;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// let configured: Option<&CudaMemoryResource> = None;
    /// assert!(DeviceAsyncResourceRef::new_checked(configured).unwrap_err().is_invalid_argument());
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for `None`.
    #[doc(alias = "rmm::to_device_async_resource_ref_checked")]
    pub fn new_checked<R>(resource: Option<&'a R>) -> Result<Self, Error>
    where
        R: ErasableAs<O>,
        S: SatisfiedBy<R>,
    {
        resource
            .map(Self::new)
            .ok_or_else(|| Error::invalid_argument("resource reference", "there is no resource"))
    }

    /// # Safety
    /// Its memory has every property in `S`.
    pub(super) unsafe fn from_dyn(resource: &'a O::Dyn) -> Self {
        Self { resource, set: PhantomData }
    }

    pub(super) fn to_dyn(self) -> &'a O::Dyn {
        self.resource
    }

    /// The resource, if it is of this type or a pointer to one that is.
    #[doc(alias = "cuda::mr::resource_cast")]
    pub fn downcast_ref<R: 'static>(self) -> Option<&'a R> {
        downcast(self.resource.as_dyn())
    }

    /// An owned handle to this resource, if there is one: for a function that takes a reference and
    /// returns a container, or builds a pool over the resource.
    ///
    /// Every [`AnyResource`] has one, and so does every resource whose type is a handle (see
    /// [`to_any_sync`](SynchronousResource::to_any_sync)): all of this library, except adapters
    /// that only wrap another.
    ///
    /// ```
    /// use rmm_core::{AnyResource, DeviceAsyncResourceRef, Error};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// fn keep(resource: DeviceAsyncResourceRef<'_>) -> Result<AnyResource, Error> {
    ///     resource.try_to_owned()
    /// }
    /// let resource = CudaMemoryResource::new();
    /// assert!(keep(DeviceAsyncResourceRef::new(&resource))?.is_equal(&resource));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the resource is not a
    /// handle: then only its owner can give it away.
    #[doc(alias = "cuda::mr::any_resource")]
    pub fn try_to_owned(self) -> Result<AnyResource<S, O>, Error> {
        let owned = O::owned(self.resource);
        let owned = owned.ok_or_else(|| not_a_handle(self.resource.as_dyn()))?;
        // SAFETY: a handle is the same resource, so the invariant of this value is the same.
        Ok(unsafe { AnyResource::from_shared(owned) })
    }

    /// The resource of type `T` in the stack that starts here, as [`Introspect::find`].
    pub fn find<T: 'static>(self) -> Option<&'a T> {
        self.resource.find()
    }

    /// The upstream: the resource that this one takes its memory from, if there is one.
    #[doc(alias = "get_upstream_resource")]
    pub fn upstream(self) -> Option<&'a (dyn SynchronousResource + 'static)> {
        self.resource.upstream_resource()
    }

    /// Returns free memory of every suballocator in the stack, until each has no more than `keep`
    /// bytes reserved or no more can be returned. Returns the bytes. See
    /// [`Introspect::trim_stack`].
    #[doc(alias = "cudaMemPoolTrimTo")]
    #[doc(alias = "trim_to")]
    pub fn trim(self, keep: u64) -> u64 {
        self.resource.trim_stack(keep)
    }

    /// Returns free memory of every suballocator in the stack, after a wait on this thread for
    /// frees whose work is pending. Otherwise as [`trim`](Self::trim). See
    /// [`Introspect::trim_stack_blocking`].
    pub fn trim_blocking(self, keep: u64) -> u64 {
        self.resource.trim_stack_blocking(keep)
    }

    /// Narrows the property set; [`try_widen`](Self::try_widen) recovers the rest.
    ///
    /// ```
    /// use rmm_core::{DeviceAccessible, HostAccessible, ResourceRef};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// let resource = CudaMemoryResource::new();
    /// let nothing_known = ResourceRef::<DeviceAccessible>::new(&resource).narrow::<()>();
    /// assert!(nothing_known.try_widen::<DeviceAccessible>().is_ok());
    /// assert_eq!(nothing_known.try_widen::<HostAccessible>(), Err(nothing_known));
    /// ```
    #[must_use]
    pub fn narrow<T: SatisfiedBy<Self>>(self) -> ResourceRef<'a, T, O> {
        // SAFETY: the set is satisfied by `Self`, and it is the same resource.
        unsafe { ResourceRef::from_dyn(self.resource) }
    }

    /// The resource with another property set, if it provides every property in it at run time.
    ///
    /// # Errors
    /// The reference as it was, if one is missing.
    #[doc(alias = "cuda::mr::dynamic_resource_cast")]
    pub fn try_widen<T: PropertySet>(self) -> Result<ResourceRef<'a, T, O>, Self> {
        if !self.has_all::<T>() {
            return Err(self);
        }
        // SAFETY: the resource provides every property in the set, and what it provides is true.
        Ok(unsafe { ResourceRef::from_dyn(self.resource) })
    }

    /// Whether memory from one may be freed by the other, which may be of any type, owned or
    /// borrowed.
    #[doc(alias = "do_is_equal")]
    pub fn is_equal<'o>(self, other: impl Into<SynchronousResourceRef<'o, ()>>) -> bool {
        is_same(O::synchronous(self.resource), other.into().to_dyn())
    }
}

#[expect(clippy::expl_impl_clone_on_copy, reason = "a derive demands it of the erased resource")]
impl<S: PropertySet, O: Order> Clone for ResourceRef<'_, S, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: PropertySet, O: Order> Copy for ResourceRef<'_, S, O> {}

impl<S: PropertySet, O: Order> PartialEq for ResourceRef<'_, S, O> {
    /// Whether memory from one may be freed by the other.
    fn eq(&self, other: &Self) -> bool {
        is_same(O::synchronous(self.resource), O::synchronous(other.resource))
    }
}

impl<S: PropertySet, O: Order> Eq for ResourceRef<'_, S, O> {}

impl<'a, S, O, R> From<&'a R> for ResourceRef<'a, S, O>
where
    S: SatisfiedBy<R>,
    O: Order,
    R: ErasableAs<O>,
{
    fn from(resource: &'a R) -> Self {
        Self::new(resource)
    }
}

impl<'a, S, T> From<ResourceRef<'a, S>> for SynchronousResourceRef<'a, T>
where
    S: PropertySet,
    T: SatisfiedBy<ResourceRef<'a, S>>,
{
    fn from(ordered: ResourceRef<'a, S>) -> Self {
        // SAFETY: the set is satisfied by the type of `ordered`, and it is the same resource.
        unsafe { Self::from_dyn(ordered.to_dyn()) }
    }
}

impl<'a, O: Order> From<ResourceRef<'a, HostDeviceAccessible, O>>
    for ResourceRef<'a, DeviceAccessible, O>
{
    fn from(both: ResourceRef<'a, HostDeviceAccessible, O>) -> Self {
        both.narrow()
    }
}

impl<'a, O: Order> From<ResourceRef<'a, HostDeviceAccessible, O>>
    for ResourceRef<'a, HostAccessible, O>
{
    fn from(both: ResourceRef<'a, HostDeviceAccessible, O>) -> Self {
        both.narrow()
    }
}

impl<S: PropertySet, O: Order> fmt::Debug for ResourceRef<'_, S, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourceRef").field(&self.resource).finish()
    }
}

delegate_sync!([S: PropertySet, O: Order] ResourceRef<'_, S, O>, |this| *this.resource, of S);
delegate_resource!([S: PropertySet] ResourceRef<'_, S>, |this| this.resource);

// SAFETY: the type's invariant: the memory has every property in the set.
unsafe impl<S: PropertySet + Contains<P>, P: Property, O: Order> HasProperty<P>
    for ResourceRef<'_, S, O>
{
}
