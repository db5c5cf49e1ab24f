//! Sets of properties.

use std::fmt::Debug;
use std::marker::PhantomData;

use super::{DeviceAccessible, HasProperty, HostAccessible, Property, PropertyId};

/// Marks a type with exactly the property set `S`: invariant in `S`, so that it does not coerce to
/// a supertype (`fn(&'static T)` is a supertype of `for<'a> fn(&'a T)`, and may have other
/// properties).
pub(crate) type Exactly<S> = PhantomData<fn(S) -> S>;

/// A set of properties, as a type: the parameter of [`AnyResource`](crate::AnyResource) and the
/// other type-erased resources.
///
/// Every [`Property`] is a set of one, `()` is the empty set, and [`HostDeviceAccessible`] is the
/// set of the two that this crate defines. Another set is a type for which a program implements
/// this trait, [`Contains`] and [`SatisfiedBy`].
///
/// ```
/// use rmm_core::{DeviceAccessible, HostDeviceAccessible, Introspect, PropertySet};
/// use rmm_resources::CudaMemoryResource;
///
/// fn offers<S: PropertySet>() -> bool {
///     CudaMemoryResource::new().has_all::<S>()
/// }
/// assert!(offers::<DeviceAccessible>() && offers::<()>());
/// assert!(!offers::<HostDeviceAccessible>());
/// ```
///
/// A set converts to any subset:
///
/// ```
/// use rmm_core::{AnyResource, DeviceAccessible, HostDeviceAccessible};
/// use rmm_resources::PinnedHostMemoryResource;
///
/// let both = AnyResource::<HostDeviceAccessible>::new(PinnedHostMemoryResource::new());
/// let device: AnyResource<DeviceAccessible> = both.into();
/// let _nothing_known = device.narrow::<()>();
/// ```
///
/// # Safety
/// [`members`](Self::members) names the same properties at every call: a type-erased resource that
/// was checked for them once declares them from then on.
#[doc(alias = "cuda::mr::properties_list")]
pub unsafe trait PropertySet: Debug + Copy + Send + Sync + 'static {
    /// Calls `visit` with every property in the set.
    fn members(visit: &mut dyn FnMut(PropertyId));
}

/// A set that contains the property `P`.
///
/// ```
/// use rmm_core::{AnyResource, Contains, HasProperty, HostAccessible};
///
/// fn read<S: Contains<HostAccessible>>(
///     resource: &AnyResource<S>,
/// ) -> &impl HasProperty<HostAccessible> {
///     resource
/// }
/// ```
///
/// # Safety
/// [`SatisfiedBy`] is implemented for types that have `P` only, and [`PropertySet::members`] names
/// `P`.
#[diagnostic::on_unimplemented(
    message = "the property `{P}` is not in the set `{Self}`",
    note = "a set only narrows at compile time; `try_widen` asks for more at run time",
    note = "a pool of memory that can do more than a device's is made by `builder_with_properties`"
)]
pub unsafe trait Contains<P: Property>: PropertySet {}

/// A set of which the memory of `R` has every property.
///
/// ```
/// use rmm_core::{AnyResource, PropertySet, Resource, SatisfiedBy};
///
/// fn erase<S: SatisfiedBy<R>, R: Resource + PartialEq + 'static>(resource: R) -> AnyResource<S> {
///     AnyResource::new(resource)
/// }
/// ```
///
/// # Safety
/// `R` has every property that the set contains.
#[diagnostic::on_unimplemented(
    message = "the memory of `{R}` is not known to have every property of `{Self}`",
    label = "needs memory with every property of `{Self}`"
)]
pub unsafe trait SatisfiedBy<R: ?Sized>: PropertySet {}

// SAFETY: it names `P`, always.
unsafe impl<P: Property> PropertySet for P {
    fn members(visit: &mut dyn FnMut(PropertyId)) {
        visit(PropertyId::of::<P>());
    }
}

// SAFETY: the blanket implementation of `SatisfiedBy` below asks for `P`, and `members` names it.
unsafe impl<P: Property> Contains<P> for P {}

// SAFETY: the set is the one property that `R` has.
unsafe impl<P: Property, R: HasProperty<P> + ?Sized> SatisfiedBy<R> for P {}

// SAFETY: it names none, always.
unsafe impl PropertySet for () {
    fn members(_visit: &mut dyn FnMut(PropertyId)) {}
}

// SAFETY: the set is empty.
unsafe impl<R: ?Sized> SatisfiedBy<R> for () {}

/// The host and the device may both read and write the memory: the set of [`HostAccessible`] and
/// [`DeviceAccessible`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostDeviceAccessible;

// SAFETY: it names the two, always.
unsafe impl PropertySet for HostDeviceAccessible {
    fn members(visit: &mut dyn FnMut(PropertyId)) {
        HostAccessible::members(visit);
        DeviceAccessible::members(visit);
    }
}

// SAFETY: `SatisfiedBy` asks for the property, and `members` names it.
unsafe impl Contains<HostAccessible> for HostDeviceAccessible {}

// SAFETY: `SatisfiedBy` asks for the property, and `members` names it.
unsafe impl Contains<DeviceAccessible> for HostDeviceAccessible {}

// SAFETY: the bounds are the set's properties.
unsafe impl<R> SatisfiedBy<R> for HostDeviceAccessible where
    R: HasProperty<HostAccessible> + HasProperty<DeviceAccessible> + ?Sized
{
}
