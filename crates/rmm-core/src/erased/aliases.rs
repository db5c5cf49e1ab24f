//! RMM's names for references to resources.
//!
//! `Async` in a name means stream-ordered, as in RMM; without it only the synchronous calls are known.

use super::{ResourceRef, SyncResourceRef};
use crate::{DeviceAccessible, HostAccessible, HostDeviceAccessible};

/// A borrowed resource whose memory work on the device may use; synchronous.
#[doc(alias = "rmm::device_resource_ref")]
pub type DeviceResourceRef<'a> = SyncResourceRef<'a, DeviceAccessible>;

/// A borrowed resource whose memory work on the device may use; in stream order.
#[doc(alias = "rmm::device_async_resource_ref")]
pub type DeviceAsyncResourceRef<'a> = ResourceRef<'a, DeviceAccessible>;

/// A borrowed resource whose memory the host may use; synchronous.
#[doc(alias = "rmm::host_resource_ref")]
pub type HostResourceRef<'a> = SyncResourceRef<'a, HostAccessible>;

/// A borrowed resource whose memory the host may use; in stream order.
#[doc(alias = "rmm::host_async_resource_ref")]
pub type HostAsyncResourceRef<'a> = ResourceRef<'a, HostAccessible>;

/// A borrowed resource whose memory the host and work on the device may use; synchronous.
///
/// It becomes a [`DeviceResourceRef`] or a [`HostResourceRef`] by `into`, and they do not become it:
///
/// ```compile_fail,E0277
/// fn widen(device: rmm_core::DeviceResourceRef<'_>) -> rmm_core::HostDeviceResourceRef<'_> {
///     device.into()
/// }
/// ```
#[doc(alias = "rmm::host_device_resource_ref")]
pub type HostDeviceResourceRef<'a> = SyncResourceRef<'a, HostDeviceAccessible>;

/// A borrowed resource whose memory the host and work on the device may use; in stream order.
#[doc(alias = "rmm::host_device_async_resource_ref")]
pub type HostDeviceAsyncResourceRef<'a> = ResourceRef<'a, HostDeviceAccessible>;

// What RMM asserts of its own: both become either, in both families, and the stream-ordered ones the synchronous ones.
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
    crosses_threads::<crate::AnySyncResource<()>>();
    crosses_threads::<HostDeviceAsyncResourceRef<'_>>();
    crosses_threads::<HostDeviceResourceRef<'_>>();
    crosses_threads::<crate::ResourceView<'_, 0>>();
    crosses_threads::<crate::StreamBound<crate::AnyResource>>();
    crosses_threads::<crate::Synchronized<crate::AnySyncResource>>();

    // A reference is a pointer to the resource and one to its functions.
    assert!(size_of::<DeviceAsyncResourceRef<'_>>() == 2 * size_of::<usize>());
    assert!(size_of::<crate::AnyResource>() == 2 * size_of::<usize>());
};
