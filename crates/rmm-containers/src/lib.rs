//! Containers for device memory, and for memory that the host and devices share.
//!
//! * [`DeviceBuffer`] holds bytes.
//! * [`DeviceUVector`] holds elements of one type, uninitialized unless a constructor says
//!   otherwise; [`DeviceScalar`] holds one.
//! * [`ElasticBuffer`] and [`ElasticUVector`] have addresses for a maximum, and memory for ranges
//!   that come and go in place.
//! * [`DeviceSlice`] and [`DeviceSliceMut`] borrow the elements of a container, or a range of them.
//! * [`PinnedVec`] and [`ManagedVec`] hold elements that the host accesses as a slice.
//! * [`DeviceBuffer::from_foreign`] adopts memory of another library, and
//!   [`DeviceSlice::with_foreign`] borrows it; [`RawBuffer`] is a buffer taken apart.
//! * With the feature `allocator-api2` or `allocator-api2-04`, `HostAllocator` lets collections of
//!   the host allocate from a resource.
//! * With the feature `half`, the types of that crate are elements.
//!
//! Element types implement [`bytemuck::Pod`]. `bytemuck` and `half` are re-exported.
//!
//! # Names of methods
//!
//! | | |
//! |---|---|
//! | `zeroed(n, stream)` | allocates from the current resource of the stream's device |
//! | `zeroed_in(n, stream, resource)` | allocates from a named resource |
//! | `to_vec()`, `fill(value)` | works on the container's own stream |
//! | `to_vec_on(stream)` | works on a named stream |
//! | `set_element_async(i, value)` | not complete on return, where RMM has the same name |
//!
//! # Stream order
//!
//! Device memory is owned by one stream. It is allocated, filled, moved and freed in the order of
//! that stream, and a program that uses no other stream pays for no event and no wait. A call that
//! names another stream
//!
//! 1. makes that stream wait for earlier work on these elements: on the container's stream, and on
//!    other streams if either of the two writes;
//! 2. records in the container that the stream uses them, before any work is enqueued.
//!
//! Later conflicting calls, growing and dropping wait for the recorded use. No order depends on a
//! destructor, and no wait covers more than the streams that conflict.
//!
//! Host memory is passed to a copy in one of three ways: borrowed by a call that returns when the
//! copy is complete, as `&'static` memory, or as a [`HostVec`], which records the copy and waits
//! before it is changed or freed. The guide `docs/containers.md` of the repository explains this
//! with examples.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![debugger_visualizer(gdb_script_file = "debugger.py")]

mod block;
mod buffer;
mod common;
mod elastic;
#[cfg(unix)]
mod export;
mod foreign;
#[cfg_attr(
    not(any(feature = "allocator-api2", feature = "allocator-api2-04")),
    expect(
        unreachable_pub,
        reason = "public with the feature only: it implements a trait of another crate"
    )
)]
mod host_allocator;
mod host_vec;

mod pattern;
mod range_view;
mod scalar;
mod slice;
mod use_tracker;
mod uvector;

pub use buffer::{DeviceBuffer, RawBuffer};
pub use elastic::{ElasticBuffer, ElasticUVector};
#[cfg(unix)]
pub use export::export;
#[cfg(any(feature = "allocator-api2", feature = "allocator-api2-04"))]
pub use host_allocator::HostAllocator;
pub use host_vec::{HostVec, ManagedVec, PinnedVec};
pub use scalar::DeviceScalar;
pub use slice::{DeviceSlice, DeviceSliceMut, OnStream};
pub use uvector::DeviceUVector;

/// The crate whose trait [`Pod`](bytemuck::Pod) marks element types.
pub use bytemuck;
/// The crate of 16-bit floating-point types, which are element types.
#[cfg(feature = "half")]
pub use half;
