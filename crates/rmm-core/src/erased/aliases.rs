//! Names for type-erased resources without stream order, and RMM's for references.
//!
//! `Async` in a name means stream-ordered, as in RMM; without it, only the synchronous calls are
//! available.

use super::reference::{ResourceRef, SynchronousResourceRef};
use crate::{AnyResource, DeviceAccessible, HostAccessible, HostDeviceAccessible, Synchronous};

/// An owned resource of any type, as [`AnyResource`], with the synchronous calls only.
///
/// ```
/// use rmm_core::{AnyResource, AnySynchronousResource};
/// use rmm_resources::CudaMemoryResource;
///
/// let ordered: AnyResource = AnyResource::new(CudaMemoryResource::new());
/// let synchronous: AnySynchronousResource = ordered.clone().into();
/// assert!(synchronous.is_equal(&ordered));
/// assert_eq!(synchronous.downcast_ref(), Some(&CudaMemoryResource::new()));
/// ```
#[doc(alias = "cuda::mr::any_synchronous_resource")]
#[doc(alias = "make_any_synchronous_resource")]
pub type AnySynchronousResource<S = DeviceAccessible> = AnyResource<S, Synchronous>;

/// A borrowed resource whose memory work on the device may use; synchronous.
///
/// ```
/// use rmm_core::DeviceResourceRef;
/// use rmm_resources::CudaMemoryResource;
///
/// fn name(resource: DeviceResourceRef<'_>) -> &'static str {
///     resource.downcast_ref::<CudaMemoryResource>().map_or("another", |_| "the one")
/// }
/// let resource = CudaMemoryResource::new();
/// assert_eq!(name(DeviceResourceRef::new(&resource)), "the one");
/// ```
#[doc(alias = "rmm::device_resource_ref")]
pub type DeviceResourceRef<'a> = SynchronousResourceRef<'a, DeviceAccessible>;

/// A borrowed resource whose memory work on the device may use; in stream order. What RMM's
/// functions that allocate take.
///
/// A function that keeps the resource, such as one that returns a container or builds a pool, gets
/// an owned handle by [`try_to_owned`](ResourceRef::try_to_owned):
///
/// ```
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_core::{AnyResource, DeviceAsyncResourceRef, Error};
/// use rmm_resources::CudaMemoryResource;
///
/// fn pool_over(
///     resource: DeviceAsyncResourceRef<'_>,
/// ) -> Result<PoolMemoryResource, Error> {
///     PoolMemoryResource::builder(resource.try_to_owned()?).build()
/// }
/// # let _machine = rmm_sim::enter();
/// let resource = CudaMemoryResource::new();
/// let pool = pool_over(DeviceAsyncResourceRef::new(&resource))?;
/// assert!(pool.upstream().is_equal(&resource));
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "rmm::device_async_resource_ref")]
pub type DeviceAsyncResourceRef<'a> = ResourceRef<'a, DeviceAccessible>;

/// A borrowed resource whose memory the host may use; synchronous.
///
/// ```
/// use rmm_core::HostResourceRef;
/// use rmm_resources::HostMemoryResource;
///
/// fn name(resource: HostResourceRef<'_>) -> &'static str {
///     resource.downcast_ref::<HostMemoryResource>().map_or("another", |_| "the one")
/// }
/// let resource = HostMemoryResource::new();
/// assert_eq!(name(HostResourceRef::new(&resource)), "the one");
/// ```
#[doc(alias = "rmm::host_resource_ref")]
pub type HostResourceRef<'a> = SynchronousResourceRef<'a, HostAccessible>;

/// A borrowed resource whose memory the host may use; in stream order.
///
/// ```
/// use rmm_core::HostAsyncResourceRef;
/// use rmm_resources::PinnedHostMemoryResource;
///
/// fn name(resource: HostAsyncResourceRef<'_>) -> &'static str {
///     resource.downcast_ref::<PinnedHostMemoryResource>().map_or("another", |_| "the one")
/// }
/// let resource = PinnedHostMemoryResource::new();
/// assert_eq!(name(HostAsyncResourceRef::new(&resource)), "the one");
/// ```
#[doc(alias = "rmm::host_async_resource_ref")]
pub type HostAsyncResourceRef<'a> = ResourceRef<'a, HostAccessible>;

/// A borrowed resource whose memory the host and work on the device may use; synchronous.
///
/// It converts `into` a [`DeviceResourceRef`] or a [`HostResourceRef`], not the other way round:
///
/// ```compile_fail,E0277
/// fn widen(device: rmm_core::DeviceResourceRef<'_>) -> rmm_core::HostDeviceResourceRef<'_> {
///     device.into()
/// }
/// ```
#[doc(alias = "rmm::host_device_resource_ref")]
pub type HostDeviceResourceRef<'a> = SynchronousResourceRef<'a, HostDeviceAccessible>;

/// A borrowed resource whose memory the host and work on the device may use; in stream order. It
/// converts into each of the others:
///
/// ```
/// use rmm_core::{DeviceAsyncResourceRef, HostAsyncResourceRef};
/// use rmm_core::{HostDeviceAsyncResourceRef, HostResourceRef};
/// use rmm_resources::PinnedHostMemoryResource;
///
/// let resource = PinnedHostMemoryResource::new();
/// let both = HostDeviceAsyncResourceRef::new(&resource);
/// let device: DeviceAsyncResourceRef<'_> = both.into();
/// let host: HostAsyncResourceRef<'_> = both.into();
/// let synchronous: HostResourceRef<'_> = host.into();
/// assert!(device.is_equal(host) && synchronous.is_equal(&resource));
/// ```
#[doc(alias = "rmm::host_device_async_resource_ref")]
pub type HostDeviceAsyncResourceRef<'a> = ResourceRef<'a, HostDeviceAccessible>;

// The conversions that RMM asserts: host-device to either, in both families, and stream-ordered to
// synchronous.
const _: () = {
    const fn becomes<F, T: From<F>>() {}
    const fn crosses_threads<T: Send + Sync>() {}

    becomes::<HostDeviceResourceRef<'_>, DeviceResourceRef<'_>>();
    becomes::<HostDeviceResourceRef<'_>, HostResourceRef<'_>>();
    becomes::<HostDeviceAsyncResourceRef<'_>, DeviceAsyncResourceRef<'_>>();
    becomes::<HostDeviceAsyncResourceRef<'_>, HostAsyncResourceRef<'_>>();
    becomes::<HostDeviceAsyncResourceRef<'_>, HostDeviceResourceRef<'_>>();
    becomes::<HostDeviceAsyncResourceRef<'_>, DeviceResourceRef<'_>>();
    becomes::<DeviceAsyncResourceRef<'_>, DeviceResourceRef<'_>>();

    crosses_threads::<crate::AnyResource<HostDeviceAccessible>>();
    crosses_threads::<crate::AnySynchronousResource<()>>();
    crosses_threads::<HostDeviceAsyncResourceRef<'_>>();
    crosses_threads::<HostDeviceResourceRef<'_>>();
    crosses_threads::<crate::StreamBound<crate::AnyResource>>();
    crosses_threads::<crate::Synchronized<crate::AnySynchronousResource>>();

    // A reference is a pointer to the resource and one to its functions.
    assert!(size_of::<DeviceAsyncResourceRef<'_>>() == 2 * size_of::<usize>());
    assert!(size_of::<crate::AnyResource>() == 2 * size_of::<usize>());
};
