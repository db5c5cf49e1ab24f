//! Borrowed resources without stream order.

use std::fmt;
use std::marker::PhantomData;

use super::compare::{downcast, innermost_sync, is_same};
use super::delegate::delegate_sync;
use crate::property::Exactly;
use crate::resource::ErasedSync;
use crate::{
    Contains, DeviceAccessible, HasProperty, HostAccessible, HostDeviceAccessible, Introspect,
    Property, PropertySet, SatisfiedBy, SyncResource,
};

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
#[derive(Clone, Copy)]
pub struct SyncResourceRef<'a, S: PropertySet = DeviceAccessible> {
    /// # Invariant
    /// Its memory has every property in `S`.
    resource: &'a (dyn ErasedSync + 'static),
    set: Exactly<S>,
}

impl<'a, S: PropertySet> SyncResourceRef<'a, S> {
    /// Borrows the resource; if it is an [`AnySyncResource`](crate::AnySyncResource), the one that
    /// it holds.
    pub fn new<R>(resource: &'a R) -> Self
    where
        R: SyncResource + PartialEq + 'static,
        S: SatisfiedBy<R>,
    {
        Self::from_erased(innermost_sync(resource))
    }

    pub(super) fn from_erased(resource: &'a (dyn ErasedSync + 'static)) -> Self {
        Self { resource, set: PhantomData }
    }

    pub(super) fn as_erased(self) -> &'a (dyn ErasedSync + 'static) {
        self.resource
    }

    /// The resource, if it is of this type or a pointer to one that is.
    #[doc(alias = "cuda::mr::resource_cast")]
    pub fn downcast_ref<R: 'static>(self) -> Option<&'a R> {
        downcast(self.resource.as_dyn())
    }

    /// The resource of type `T` in the stack that starts here, as [`Introspect::find`].
    pub fn find<T: 'static>(self) -> Option<&'a T> {
        self.resource.find()
    }

    /// The upstream: the resource that this one takes its memory from, if there is one.
    #[doc(alias = "get_upstream_resource")]
    pub fn upstream(self) -> Option<&'a (dyn SyncResource + 'static)> {
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

    /// As [`trim`](Self::trim), after a wait on this thread for frees whose work is pending. See
    /// [`Introspect::trim_stack_blocking`].
    pub fn trim_blocking(self, keep: u64) -> u64 {
        self.resource.trim_stack_blocking(keep)
    }

    /// Narrows the property set; [`try_widen`](Self::try_widen) recovers the rest.
    ///
    /// ```
    /// use rmm_core::{DeviceAccessible, HostAccessible, SyncResourceRef};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// let resource = CudaMemoryResource::new();
    /// let nothing_known = SyncResourceRef::<DeviceAccessible>::new(&resource).narrow::<()>();
    /// assert!(nothing_known.try_widen::<DeviceAccessible>().is_ok());
    /// assert_eq!(nothing_known.try_widen::<HostAccessible>(), Err(nothing_known));
    /// ```
    #[must_use]
    pub fn narrow<T: SatisfiedBy<Self>>(self) -> SyncResourceRef<'a, T> {
        SyncResourceRef::from_erased(self.resource)
    }

    /// The resource with another property set, if it provides every property in it at run time.
    ///
    /// # Errors
    /// The reference as it was, if one is missing.
    #[doc(alias = "cuda::mr::dynamic_resource_cast")]
    pub fn try_widen<T: PropertySet>(self) -> Result<SyncResourceRef<'a, T>, Self> {
        if self.has_all::<T>() {
            Ok(SyncResourceRef::from_erased(self.resource))
        } else {
            Err(self)
        }
    }

    /// Whether memory from one may be freed by the other, which may be of any type, owned or
    /// borrowed.
    #[doc(alias = "do_is_equal")]
    pub fn is_equal<'o>(self, other: impl Into<SyncResourceRef<'o, ()>>) -> bool {
        is_same(self.resource, other.into().as_erased())
    }
}

impl<S: PropertySet> PartialEq for SyncResourceRef<'_, S> {
    /// Whether memory from one may be freed by the other.
    fn eq(&self, other: &Self) -> bool {
        is_same(self.resource, other.resource)
    }
}

impl<S: PropertySet> Eq for SyncResourceRef<'_, S> {}

impl<'a, S, R> From<&'a R> for SyncResourceRef<'a, S>
where
    S: SatisfiedBy<R>,
    R: SyncResource + PartialEq + 'static,
{
    fn from(resource: &'a R) -> Self {
        Self::new(resource)
    }
}

impl<'a> From<SyncResourceRef<'a, HostDeviceAccessible>> for SyncResourceRef<'a, DeviceAccessible> {
    fn from(both: SyncResourceRef<'a, HostDeviceAccessible>) -> Self {
        both.narrow()
    }
}

impl<'a> From<SyncResourceRef<'a, HostDeviceAccessible>> for SyncResourceRef<'a, HostAccessible> {
    fn from(both: SyncResourceRef<'a, HostDeviceAccessible>) -> Self {
        both.narrow()
    }
}

impl<S: PropertySet> fmt::Debug for SyncResourceRef<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SyncResourceRef").field(&self.resource).finish()
    }
}

delegate_sync!([S: PropertySet] SyncResourceRef<'_, S>, |this| this.resource, of S);

// SAFETY: the type's invariant: the memory has every property in the set.
unsafe impl<S: PropertySet + Contains<P>, P: Property> HasProperty<P> for SyncResourceRef<'_, S> {}
