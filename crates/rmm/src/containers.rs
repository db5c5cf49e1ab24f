//! Containers: typed and untyped memory on a device, and memory that the host and devices share.
//!
//! The guide is `docs/containers.md`.

#[cfg(feature = "allocator-api2")]
pub use rmm_containers::HostAllocator;
pub use rmm_containers::{
    DeviceBuffer, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceUVector, HostVec, ManagedVec,
    OnStream, PinnedVec,
};
pub use rmm_core::{HasResource, allocation_alignment};
