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
/// set of the two that this crate defines. [`property_set!`](crate::property_set) defines more.
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
/// [`property_set!`](crate::property_set) writes the implementation, and no `unsafe` is needed.
///
/// # Safety
/// [`members`](Self::members) names the same properties at every call: a type-erased resource that
/// was checked for them once declares them from then on.
#[doc(alias = "cuda::mr::properties_list")]
pub unsafe trait PropertySet: Debug + Copy + Send + Sync + 'static {
    /// Names every property in the set.
    fn members(members: &mut Members<'_>);
}

/// A set that contains the property `P`. [`property_set!`](crate::property_set) implements it.
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
    note = "a set only narrows at compile time; `try_widen` asks for more at run time"
)]
pub unsafe trait Contains<P: Property>: PropertySet {}

/// A set of which the memory of `R` has every property. [`property_set!`](crate::property_set)
/// implements it.
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

/// Receives the members of a set, in [`PropertySet::members`].
#[expect(missing_debug_implementations, reason = "a closure has nothing to show")]
pub struct Members<'m>(&'m mut dyn FnMut(PropertyId));

impl<'m> Members<'m> {
    pub(crate) fn new(visit: &'m mut dyn FnMut(PropertyId)) -> Self {
        Self(visit)
    }

    /// The property `P` is in the set.
    pub fn add<P: Property>(&mut self) -> &mut Self {
        (self.0)(PropertyId::of::<P>());
        self
    }
}

// SAFETY: it names `P`, always.
unsafe impl<P: Property> PropertySet for P {
    fn members(members: &mut Members<'_>) {
        members.add::<P>();
    }
}

// SAFETY: the blanket implementation of `SatisfiedBy` below asks for `P`, and `members` names it.
unsafe impl<P: Property> Contains<P> for P {}

// SAFETY: the set is the one property that `R` has.
unsafe impl<P: Property, R: HasProperty<P> + ?Sized> SatisfiedBy<R> for P {}

// SAFETY: it names none, always.
unsafe impl PropertySet for () {
    fn members(_members: &mut Members<'_>) {}
}

// SAFETY: the set is empty.
unsafe impl<R: ?Sized> SatisfiedBy<R> for () {}

/// Defines a type that is a set of properties.
///
/// ```
/// use rmm_core::{AnyResource, DeviceAccessible, HasProperty, Property};
///
/// #[derive(Clone, Copy, Debug)]
/// struct Exportable;
/// impl Property for Exportable {
///     const NAME: &'static str = "exportable";
/// }
///
/// rmm_core::property_set! {
///     /// What our transport asks for.
///     pub struct Transportable = [DeviceAccessible, Exportable];
/// }
///
/// fn send<R: HasProperty<Exportable>>(_: &R) {}
/// fn send_erased(resource: &AnyResource<Transportable>) {
///     send(resource); // the type still knows
/// }
/// ```
#[macro_export]
macro_rules! property_set {
    ($(#[$meta:meta])* $visible:vis struct $name:ident = [$($property:path),+ $(,)?];) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        $visible struct $name;

        // SAFETY: it names the listed types, always.
        unsafe impl $crate::PropertySet for $name {
            fn members(members: &mut $crate::Members<'_>) {
                $(members.add::<$property>();)+
            }
        }

        $(
            // SAFETY: the implementation of `SatisfiedBy` asks for this property, and `members`
            // names it: all three are written from one list.
            unsafe impl $crate::Contains<$property> for $name {}
        )+

        // SAFETY: the bounds are the set's properties. The parameter's name must differ from every
        // property's, which it would shadow.
        unsafe impl<__Resource: ?Sized $(+ $crate::HasProperty<$property>)+> $crate::SatisfiedBy<__Resource> for $name {}
    };
}

property_set! {
    /// The host and the device may both read and write the memory: the set of [`HostAccessible`]
    /// and [`DeviceAccessible`].
    pub struct HostDeviceAccessible = [HostAccessible, DeviceAccessible];
}
