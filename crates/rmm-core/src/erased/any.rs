//! Owned type-erased resources.

use std::fmt;

use super::aliases::AnySynchronousResource;
use super::compare::{downcast, is_same};
use super::order::ErasableAs;
use super::reference::ResourceRef;
use super::reference::SynchronousResourceRef;
use crate::resource::{Order, Shared, delegate_resource, delegate_sync};
use crate::{
    AnyResource, AsDyn, Contains, DeviceAccessible, HasProperty, HostAccessible,
    HostDeviceAccessible, Introspect, Property, PropertySet, SatisfiedBy,
};

impl<S: PropertySet, O: Order> AnyResource<S, O> {
    /// Erases the resource's type. Allocates once on the host's heap, or not at all if the resource
    /// is an `AnyResource` itself.
    ///
    /// From a pointer to a handle (`&'static R`, `Box<R>`, `Arc<R>`, a type-erased reference) it
    /// keeps a clone of the handle, so that the pointer changes neither what the result equals nor
    /// the type that [`downcast_ref`](Self::downcast_ref) finds.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use rmm_core::{AnyResource, DeviceAsyncResourceRef};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// static CUDA: CudaMemoryResource = CudaMemoryResource::new();
    /// let any: AnyResource = AnyResource::new(CUDA);
    /// assert_eq!(any, AnyResource::new(&CUDA));
    /// assert_eq!(any, AnyResource::new(Arc::new(CUDA)));
    /// assert_eq!(any, AnyResource::new(DeviceAsyncResourceRef::new(&CUDA)));
    /// ```
    pub fn new<R>(resource: R) -> Self
    where
        R: ErasableAs<O>,
        S: SatisfiedBy<R>,
    {
        // SAFETY: the set is satisfied by `R`, and the memory is that of this resource.
        unsafe { Self::from_shared(resource.into_shared()) }
    }

    /// A type-erased handle to the same resource: a clone of it.
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::AnyResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// let handle: AnyResource = AnyResource::of(&pool);
    /// assert!(handle.is_equal(&pool)); // memory from one may be freed by the other
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    pub fn of<R>(resource: &R) -> Self
    where
        R: ErasableAs<O> + Clone,
        S: SatisfiedBy<R>,
    {
        Self::new(resource.clone())
    }

    /// The resource, if it is of this type or a pointer to one that is.
    #[doc(alias = "cuda::mr::resource_cast")]
    pub fn downcast_ref<R: 'static>(&self) -> Option<&R> {
        downcast(self.shared.0.as_dyn())
    }

    /// The resource, borrowed.
    pub fn as_resource_ref(&self) -> ResourceRef<'_, S, O> {
        // SAFETY: the invariant of this value is the same.
        unsafe { ResourceRef::from_dyn(&*self.shared.0) }
    }

    /// Returns free memory of every suballocator in the stack, until each has no more than `keep`
    /// bytes reserved or no more can be returned. Returns the bytes. See
    /// [`Introspect::trim_stack`].
    ///
    /// ```
    /// use rmm_adaptors::{PoolMemoryResource, StatisticsResourceAdaptor};
    /// use rmm_core::AnyResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let counted = StatisticsResourceAdaptor::new(builder.initial_size(2 << 20).build()?);
    /// let resource: AnyResource = AnyResource::new(counted);
    /// assert_eq!(resource.trim(0), 2 << 20);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[doc(alias = "cudaMemPoolTrimTo")]
    #[doc(alias = "trim_to")]
    pub fn trim(&self, keep: u64) -> u64 {
        self.shared.trim_stack(keep)
    }

    /// Returns free memory of every suballocator in the stack, after a wait on this thread for
    /// frees whose work is pending. Otherwise as [`trim`](Self::trim). See
    /// [`Introspect::trim_stack_blocking`].
    pub fn trim_blocking(&self, keep: u64) -> u64 {
        self.shared.trim_stack_blocking(keep)
    }

    /// Narrows the property set.
    #[must_use]
    pub fn narrow<T: SatisfiedBy<Self>>(self) -> AnyResource<T, O> {
        // SAFETY: the set is satisfied by `Self`, and it is the same resource.
        unsafe { AnyResource::from_shared(self.shared) }
    }

    /// The resource with another property set, if it provides every property in it at run time.
    ///
    /// # Errors
    /// The resource as it was, if one is missing.
    #[doc(alias = "cuda::mr::dynamic_resource_cast")]
    pub fn try_widen<T: PropertySet>(self) -> Result<AnyResource<T, O>, Self> {
        if !self.has_all::<T>() {
            return Err(self);
        }
        // SAFETY: the resource provides every property in the set, and what it provides is true.
        Ok(unsafe { AnyResource::from_shared(self.shared) })
    }

    /// The resource with another property set, for resources that keep the set of their upstream in
    /// their own type.
    ///
    /// # Safety
    /// Its memory has every property in `T`.
    #[must_use]
    pub unsafe fn assume<T: PropertySet>(&self) -> &AnyResource<T, O> {
        // SAFETY: the type is transparent over `shared`, whose type does not depend on the set;
        // the marker of the set is of size zero. The caller's contract is the invariant of
        // `shared`.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    /// How many handles to the resource there are, this one among them: clones, those below other
    /// resources, and those of [`Resource::to_any`].
    #[doc(hidden)]
    #[must_use]
    pub fn handle_count(&self) -> usize {
        std::sync::Arc::strong_count(&self.shared.0)
    }

    /// Whether memory from one may be freed by the other, which may be of any type, owned or
    /// borrowed.
    #[doc(alias = "do_is_equal")]
    pub fn is_equal<'o>(&self, other: impl Into<SynchronousResourceRef<'o, ()>>) -> bool {
        is_same(O::synchronous(&self.shared.0), other.into().to_dyn())
    }
}

impl<S: PropertySet, O: Order> PartialEq for AnyResource<S, O> {
    /// Whether memory from one may be freed by the other.
    fn eq(&self, other: &Self) -> bool {
        is_same(O::synchronous(&self.shared.0), O::synchronous(&other.shared.0))
    }
}

impl<S: PropertySet, O: Order> Eq for AnyResource<S, O> {}

impl<S: PropertySet, O: Order> fmt::Debug for AnyResource<S, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyResource").field(&self.shared.0).finish()
    }
}

impl<S: PropertySet, T: SatisfiedBy<AnyResource<S>>> From<AnyResource<S>>
    for AnySynchronousResource<T>
{
    fn from(ordered: AnyResource<S>) -> Self {
        // SAFETY: the set is satisfied by the type of `ordered`, and it is the same resource.
        unsafe { Self::from_shared(Shared(ordered.shared.0)) }
    }
}

impl<O: Order> From<AnyResource<HostDeviceAccessible, O>> for AnyResource<DeviceAccessible, O> {
    fn from(both: AnyResource<HostDeviceAccessible, O>) -> Self {
        both.narrow()
    }
}

impl<O: Order> From<AnyResource<HostDeviceAccessible, O>> for AnyResource<HostAccessible, O> {
    fn from(both: AnyResource<HostDeviceAccessible, O>) -> Self {
        both.narrow()
    }
}

delegate_sync!([S: PropertySet, O: Order] AnyResource<S, O>, |this| this.shared, of S);
delegate_resource!([S: PropertySet] AnyResource<S>, |this| *this.shared.0);

// SAFETY: the type's invariant: the memory has every property in the set.
unsafe impl<S: PropertySet + Contains<P>, P: Property, O: Order> HasProperty<P>
    for AnyResource<S, O>
{
}
