//! Containers: untyped and typed device memory, and memory that the host and devices share.
//!
//! The guide `docs/containers.md` explains how they order work on several streams.

#[cfg(any(feature = "allocator-api2", feature = "allocator-api2-04"))]
pub use rmm_containers::HostAllocator;
pub use rmm_containers::{
    DeviceBuffer, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceUVector, ElasticBuffer,
    ElasticUVector, HostVec, ManagedVec, OnStream, PinnedVec, RawBuffer,
};
pub use rmm_core::{HasResource, allocation_alignment};
