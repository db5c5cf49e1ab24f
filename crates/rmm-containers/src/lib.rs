//! Containers in device memory.
//!
//! * [`DeviceBuffer`] holds bytes.
//! * [`DeviceUVector`] holds elements of one type, not initialised unless asked for, and
//!   [`DeviceScalar`] one of them.
//! * [`DeviceSlice`] and [`DeviceSliceMut`] borrow elements of these, whole or in parts.
//! * [`PinnedVec`] and [`ManagedVec`] hold elements in memory that the host reads too.
//! * With the feature `allocator-api2`, `HostAllocator` puts the host's collections into the memory
//!   of a resource.
//! * With the feature `half`, the types of that crate are elements.
//!
//! What elements may be is said by [`bytemuck`]'s traits, and `bytemuck` and `half` can be used
//! from here.
//!
//! # Order
//!
//! A container of device memory belongs to a stream: its memory is allocated, filled, moved and
//! freed in that stream's order, and as long as no other is involved there is no event and no wait.
//! Where a call names another stream,
//!
//! 1. that stream waits for what was done to these elements before: on the container's stream, and
//!    on others where one of the two writes;
//! 2. the container notes that the stream uses them, before any work is enqueued;
//! 3. whoever comes next and conflicts with it waits for that stream: another call, growing,
//!    dropping.
//!
//! Nothing depends on a value being dropped in time, and nothing waits for more than the streams in
//! question. Memory of the host is given to a copy in one of three ways: borrowed by a call that
//! returns when the copy is done, borrowed for good (`&'static`), or as a [`HostVec`], which
//! remembers the copy and waits before it is changed or freed. The guide `docs/containers.md` of
//! the repository tells more, by examples that run.

mod block;
mod buffer;
#[cfg_attr(
    not(feature = "allocator-api2"),
    expect(unreachable_pub, reason = "public with the feature: its traits are another crate's")
)]
mod host_allocator;
mod host_vec;
mod memory;
mod order;
mod pattern;
mod scalar;
mod slice;
mod uvector;

pub use buffer::DeviceBuffer;
#[cfg(feature = "allocator-api2")]
pub use host_allocator::HostAllocator;
pub use host_vec::{HostVec, ManagedVec, PinnedVec};
pub use scalar::DeviceScalar;
pub use slice::{DeviceSlice, DeviceSliceMut, OnStream};
pub use uvector::DeviceUVector;

/// Whose [`Pod`](bytemuck::Pod) says what an element may be.
pub use bytemuck;
/// Whose floating-point numbers of 16 bits are elements.
#[cfg(feature = "half")]
pub use half;
