//! Owned resources without stream order.

use std::fmt;
use std::marker::PhantomData;

use super::compare::{downcast, is_same, not_a_handle};
use super::delegate::delegate_sync;
use super::held::Held;
use super::shared::SharedSync;
use crate::property::Exactly;
use crate::resource::{handle, pointee};
use crate::{
    AnyResource, Contains, DeviceAccessible, Erasable, Error, HasProperty, HostAccessible,
    HostDeviceAccessible, Introspect, Property, PropertySet, SatisfiedBy, SyncResource,
    SyncResourceRef,
};

/// An owned resource of any type, as [`AnyResource`], with the synchronous calls only.
///
/// ```
/// use rmm_core::{AnyResource, AnySyncResource};
/// use rmm_resources::CudaMemoryResource;
///
/// let ordered: AnyResource = AnyResource::new(CudaMemoryResource::new());
/// let synchronous: AnySyncResource = ordered.clone().into();
/// assert!(synchronous.is_equal(&ordered));
/// assert_eq!(synchronous.downcast_ref(), Some(&CudaMemoryResource::new()));
/// ```
#[doc(alias = "cuda::mr::any_synchronous_resource")]
#[doc(alias = "make_any_synchronous_resource")]
pub struct AnySyncResource<S: PropertySet = DeviceAccessible> {
    /// # Invariant
    /// Its memory has every property in `S`.
    shared: SharedSync,
    set: Exactly<S>,
}

impl<S: PropertySet> AnySyncResource<S> {
    /// Erases the resource's type, as [`AnyResource::new`].
    pub fn new<R>(resource: R) -> Self
    where
        R: SyncResource + PartialEq + 'static,
        S: SatisfiedBy<R>,
    {
        let is_pointer = pointee(resource.as_dyn()).is_some();
        let behind = if is_pointer { handle(resource.as_dyn()) } else { None };
        Self::from_shared(SharedSync(behind.unwrap_or_else(|| Held::new(resource))))
    }

    /// A type-erased handle to the same resource: a clone of it.
    ///
    /// ```
    /// use rmm_core::AnySyncResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// let resource = CudaMemoryResource::new();
    /// let handle: AnySyncResource = AnySyncResource::of(&resource);
    /// assert!(handle.is_equal(&resource));
    /// ```
    pub fn of<R>(resource: &R) -> Self
    where
        R: SyncResource + Clone + PartialEq + 'static,
        S: SatisfiedBy<R>,
    {
        Self::new(resource.clone())
    }

    pub(super) fn from_shared(shared: SharedSync) -> Self {
        Self { shared, set: PhantomData }
    }

    /// The resource, if it is of this type or a pointer to one that is.
    #[doc(alias = "cuda::mr::resource_cast")]
    pub fn downcast_ref<R: 'static>(&self) -> Option<&R> {
        downcast(self.shared.0.as_dyn())
    }

    /// The resource, borrowed.
    pub fn as_resource_ref(&self) -> SyncResourceRef<'_, S> {
        SyncResourceRef::from_erased(&*self.shared.0)
    }

    /// Returns free memory of every suballocator in the stack, until each has no more than `keep`
    /// bytes reserved or no more can be returned. Returns the bytes. See
    /// [`Introspect::trim_stack`].
    #[doc(alias = "cudaMemPoolTrimTo")]
    #[doc(alias = "trim_to")]
    pub fn trim(&self, keep: u64) -> u64 {
        self.shared.trim_stack(keep)
    }

    /// As [`trim`](Self::trim), after a wait on this thread for frees whose work is pending. See
    /// [`Introspect::trim_stack_blocking`].
    pub fn trim_blocking(&self, keep: u64) -> u64 {
        self.shared.trim_stack_blocking(keep)
    }

    /// Narrows the property set.
    #[must_use]
    pub fn narrow<T: SatisfiedBy<Self>>(self) -> AnySyncResource<T> {
        AnySyncResource::from_shared(self.shared)
    }

    /// The resource with another property set, if it provides every property in it at run time.
    ///
    /// # Errors
    /// The resource as it was, if one is missing.
    #[doc(alias = "cuda::mr::dynamic_resource_cast")]
    pub fn try_widen<T: PropertySet>(self) -> Result<AnySyncResource<T>, Self> {
        if self.has_all::<T>() { Ok(AnySyncResource::from_shared(self.shared)) } else { Err(self) }
    }

    /// Whether memory from one may be freed by the other, which may be of any type, owned or
    /// borrowed.
    #[doc(alias = "do_is_equal")]
    pub fn is_equal<'o>(&self, other: impl Into<SyncResourceRef<'o, ()>>) -> bool {
        is_same(&*self.shared.0, other.into().as_erased())
    }
}

impl<S: PropertySet> SyncResourceRef<'_, S> {
    /// An owned handle to this resource, if there is one: for a function that takes a reference and
    /// returns a container, or builds a pool over the resource.
    ///
    /// Every [`AnySyncResource`] has one, and so does every resource whose type is a handle
    /// ([`Request::handle`](crate::Request::handle)): all of this library, except adapters that
    /// only wrap another.
    ///
    /// ```
    /// use rmm_core::{AnySyncResource, DeviceResourceRef, Error};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// fn keep(resource: DeviceResourceRef<'_>) -> Result<AnySyncResource, Error> {
    ///     resource.try_to_owned()
    /// }
    /// let resource = CudaMemoryResource::new();
    /// assert!(keep(DeviceResourceRef::new(&resource))?.is_equal(&resource));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the resource is not a
    /// handle: then only its owner can give it away.
    #[doc(alias = "cuda::mr::any_resource")]
    pub fn try_to_owned(self) -> Result<AnySyncResource<S>, Error> {
        let resource = self.as_erased();
        let owned = handle(resource.as_dyn()).ok_or_else(|| not_a_handle(resource))?;
        Ok(AnySyncResource::from_shared(SharedSync(owned)))
    }
}

impl<S: PropertySet> Clone for AnySyncResource<S> {
    fn clone(&self) -> Self {
        Self::from_shared(self.shared.clone())
    }
}

impl<S: PropertySet> PartialEq for AnySyncResource<S> {
    /// Whether memory from one may be freed by the other.
    fn eq(&self, other: &Self) -> bool {
        is_same(&*self.shared.0, &*other.shared.0)
    }
}

impl<S: PropertySet> Eq for AnySyncResource<S> {}

impl<S: PropertySet> fmt::Debug for AnySyncResource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnySyncResource").field(&self.shared.0).finish()
    }
}

impl<S: PropertySet, T: SatisfiedBy<AnyResource<S>>> From<AnyResource<S>> for AnySyncResource<T> {
    fn from(ordered: AnyResource<S>) -> Self {
        Self::from_shared(SharedSync(ordered.into_shared().0))
    }
}

impl From<AnySyncResource<HostDeviceAccessible>> for AnySyncResource<DeviceAccessible> {
    fn from(both: AnySyncResource<HostDeviceAccessible>) -> Self {
        both.narrow()
    }
}

impl From<AnySyncResource<HostDeviceAccessible>> for AnySyncResource<HostAccessible> {
    fn from(both: AnySyncResource<HostDeviceAccessible>) -> Self {
        both.narrow()
    }
}

delegate_sync!([S: PropertySet] AnySyncResource<S>, |this| this.shared, of S);

// SAFETY: the type's invariant: the memory has every property in the set.
unsafe impl<S: PropertySet + Contains<P>, P: Property> HasProperty<P> for AnySyncResource<S> {}
