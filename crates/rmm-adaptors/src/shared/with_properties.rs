//! Resource handles that are generic over the properties of their memory, and views of them with
//! another set.

use std::marker::PhantomData;
use std::ptr;

use rmm_core::{
    DeviceAccessible, HostAccessible, HostDeviceAccessible, Introspect, PropertySet, Query,
    SynchronousResource,
};

/// Marks a type with exactly the property set `S`: invariant in `S`, as
/// [`AnyResource`](rmm_core::AnyResource) is.
pub(crate) type Exactly<S> = PhantomData<fn(S) -> S>;

/// A resource that is generic over the properties of its memory.
///
/// # Safety
/// 1. `With<T>` has the layout of `Self` for every `T`, and each of its fields has the same type or
///    one for which this holds.
/// 2. Its one invariant that depends on `T` is that the memory has every property in `T`.
pub(crate) unsafe trait WithProperties: SynchronousResource + 'static {
    /// The same handle, for memory with the properties in `T`.
    type With<T: PropertySet>: 'static;
}

/// Provides views of the resource with each set of this library that its memory has: a program
/// that looks for `PoolMemoryResource` finds a pool of pinned memory too.
pub(crate) fn provide_views<'a, 'r, R: WithProperties>(
    resource: &'a R,
    query: &'r mut Query<'a>,
) -> &'r mut Query<'a> {
    query
        .view(|| view::<R, DeviceAccessible>(resource))
        .view(|| view::<R, HostAccessible>(resource))
        .view(|| view::<R, HostDeviceAccessible>(resource))
        .view(|| view::<R, ()>(resource))
}

fn view<R: WithProperties, T: PropertySet>(resource: &R) -> Option<&R::With<T>> {
    // SAFETY: `has_all` returned true, and `SynchronousResource` demands that what `provide`
    // answers holds of all memory.
    resource.has_all::<T>().then(|| unsafe { assume(resource) })
}

/// The resource with another property set.
///
/// # Safety
/// Its memory has every property in `T`.
pub(crate) unsafe fn assume<R: WithProperties, T: PropertySet>(resource: &R) -> &R::With<T> {
    // SAFETY: both have one layout, by the trait's contract; the invariant that depends on `T`
    // holds by the caller's. The reference keeps its lifetime.
    unsafe { &*ptr::from_ref(resource).cast::<R::With<T>>() }
}
