//! Containers in device memory.
//!
//! * [`DeviceBuffer`] holds bytes.
//! * [`DeviceUVector`] holds elements of one type, not initialised unless asked for.
//!
//! * With the feature `allocator-api2`, `HostAllocator` puts the host's collections into the memory of a resource.
//!
//! A container belongs to a stream: its memory is allocated, filled and freed in that stream's order. Where a call takes another
//! stream, the two are ordered with an event; with the container's own stream there is nothing to pay.

mod buffer;
#[cfg(feature = "allocator-api2")]
mod host_allocator;
mod uvector;

pub use buffer::DeviceBuffer;
#[cfg(feature = "allocator-api2")]
pub use host_allocator::HostAllocator;
pub use uvector::DeviceUVector;
