//! Properties of memory, as types.

mod id;
mod set;

use std::fmt::Debug;

pub use id::PropertyId;
pub(crate) use set::Exactly;
pub use set::{Contains, HostDeviceAccessible, PropertySet, SatisfiedBy};

/// A property that a resource's memory may have: a marker type. Users may add their own.
///
/// It must hold for every part of the memory, whatever was written there before: adaptors declare
/// the properties of their upstream, and a pool allocates parts of its upstream's blocks, and
/// reuses them. That memory can be exported is such a property; that it is zeroed, or starts at a
/// page, is not.
///
/// ```
/// use rmm_core::{DevicePtr, Error, HasProperty, Introspect, Property, Query, SynchronousResource};
/// # use std::alloc::Layout;
///
/// /// The memory keeps its contents when the machine is switched off.
/// #[derive(Clone, Copy, Debug)]
/// struct Persistent;
/// impl Property for Persistent {
///     const NAME: &'static str = "persistent";
/// }
///
/// # #[derive(Debug)]
/// struct Flash;
/// // SAFETY: all its memory is on a disk.
/// unsafe impl HasProperty<Persistent> for Flash {}
/// # // SAFETY: it hands nothing out.
/// # unsafe impl SynchronousResource for Flash {
/// #     fn do_allocate_sync(&self, _: Layout) -> Result<DevicePtr, Error> {
/// #         Err(Error::out_of_memory("flash"))
/// #     }
/// #     unsafe fn do_deallocate_sync(&self, _: DevicePtr, _: Layout) {}
/// #     fn name(&self) -> &'static str {
/// #         "flash"
/// #     }
/// #     fn provide<'a>(&'a self, query: &mut Query<'a>) {
/// #         query.properties(self).has::<Persistent>();
/// #     }
/// # }
/// // ... and its `SynchronousResource::provide` says `query.properties(self).has::<Persistent>()`.
/// assert!(Flash.has_property::<Persistent>());
/// ```
pub trait Property: Debug + Copy + Send + Sync + 'static {
    /// The property's name, for messages.
    const NAME: &'static str;
}

/// A property with a value, such as [`MemoryKind`](crate::MemoryKind).
///
/// ```
/// use rmm_core::{Property, PropertyWithValue};
///
/// /// Which NUMA node the memory is on.
/// #[derive(Clone, Copy, Debug)]
/// struct NumaNode;
/// impl Property for NumaNode {
///     const NAME: &'static str = "numa-node";
/// }
/// impl PropertyWithValue for NumaNode {
///     type Value = u32;
/// }
/// ```
#[doc(alias = "cuda::property_with_value")]
pub trait PropertyWithValue: Property {
    /// The type of the value.
    type Value: 'static;
}

/// Work on the device may read and write the memory.
///
/// ```
/// use rmm_core::{DeviceAccessible, HasProperty};
/// use rmm_resources::CudaMemoryResource;
///
/// fn for_kernels(_resource: &impl HasProperty<DeviceAccessible>) {}
/// for_kernels(&CudaMemoryResource::new());
/// ```
#[doc(alias = "cuda::mr::device_accessible")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeviceAccessible;

/// The host may read and write the memory.
///
/// ```
/// use rmm_core::{HasProperty, HostAccessible};
/// use rmm_resources::PinnedHostMemoryResource;
///
/// fn for_the_host(_resource: &impl HasProperty<HostAccessible>) {}
/// for_the_host(&PinnedHostMemoryResource::new());
/// ```
#[doc(alias = "cuda::mr::host_accessible")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostAccessible;

impl Property for DeviceAccessible {
    const NAME: &'static str = "device-accessible";
}

impl Property for HostAccessible {
    const NAME: &'static str = "host-accessible";
}

/// A type whose memory has the property `P`.
///
/// ```
/// use rmm_core::{DeviceAccessible, HasProperty, HostAccessible, SynchronousResource};
/// use rmm_resources::ManagedMemoryResource;
///
/// /// `cuda::mr::synchronous_resource_with<R, host_accessible, device_accessible>`
/// fn name<R>(resource: &R) -> &'static str
/// where
///     R: SynchronousResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible>,
/// {
///     resource.name()
/// }
/// assert_eq!(name(&ManagedMemoryResource::new()), "managed");
/// ```
///
/// Pointers to a resource have its properties, and adaptors those of their upstream. See
/// [`Property`] for how a resource declares one. A resource that declares a property here provides
/// it at run time too, in [`SynchronousResource::provide`](crate::SynchronousResource::provide).
///
/// # Safety
/// All memory that the type allocates has the property for as long as it is allocated: code relies
/// on it without another check.
#[doc(alias = "cuda::has_property")]
#[doc(alias = "cuda::mr::resource_with")]
#[doc(alias = "cuda::mr::synchronous_resource_with")]
#[diagnostic::on_unimplemented(
    message = "the memory of `{Self}` is not known to have the property `{P}`",
    label = "needs memory with the property `{P}`",
    note = "a resource claims what its memory can do by implementing `HasProperty`"
)]
pub unsafe trait HasProperty<P: Property> {}

/// A type that knows the value of a property of its memory.
///
/// ```
/// use rmm_core::{HasPropertyValue, MemoryKind};
/// use rmm_resources::CudaMemoryResource;
///
/// let resource = CudaMemoryResource::new();
/// let kind = HasPropertyValue::<MemoryKind>::property_value(&resource);
/// assert_eq!(kind, MemoryKind::Device);
/// ```
#[doc(alias = "cuda::has_property_with")]
#[doc(alias = "cuda::get_property")]
pub trait HasPropertyValue<P: PropertyWithValue>: HasProperty<P> {
    /// The value.
    fn property_value(&self) -> P::Value;
}
