//! The concepts of GPU memory management: memory resources, streams, events, devices and errors.
//!
//! A [`SynchronousResource`] allocates memory that every stream may use at once; a [`Resource`]
//! allocates it *in stream order*. Programs can implement both; the resources over the driver are
//! in `rmm-resources`, suballocators and adaptors in `rmm-adaptors`. [`ResourceRef`] and
//! [`AnyResource`] are type-erased resources that keep the properties of the memory in their type
//! ([`DeviceAccessible`], [`HostAccessible`], or a [set](PropertySet) of them);
//! [`SynchronousResourceRef`] and [`AnySynchronousResource`] are their synchronous counterparts.
//! [`Introspect`] returns the properties and the stack of any resource; [`HasResource`] returns the
//! resource that a container uses. [`MemoryResource`], [`MemoryKind`] and [`ResourceView`] are the
//! view of the CUDA `<memory_resource>` proposal.
//!
//! Items can be found by the names that they have in RMM, CCCL and CUDA: search for
//! `cuda_stream_view` or `cudaMemcpyAsync`.
//!
//! # Stream order
//!
//! Work on one stream runs in the order in which it was enqueued; work on two streams runs in any
//! order unless something (an event, a synchronization) orders it. Memory follows the same rule,
//! and this is the contract of every resource here:
//!
//! 1. Memory that [`Resource::allocate`] returned for stream *s* may be used at once by work
//!    enqueued on *s*. Work on another stream may use it if that work is ordered after the
//!    allocation on *s*.
//! 2. [`Resource::deallocate`] on stream *s* promises that every use of the memory is ordered
//!    before the free on *s*. The next request on *s* may get the memory at once, while the device
//!    still uses it: the order of *s* keeps the two uses apart.
//! 3. Memory from [`SynchronousResource::allocate_sync`] may be used by every stream once the call
//!    returns, and [`SynchronousResource::deallocate_sync`] promises that all uses have
//!    *completed*.
//! 4. Memory is freed with the [`Layout`](std::alloc::Layout) that it was allocated with, by a
//!    resource equal to the one that allocated it.
//! 5. A request of zero bytes succeeds with [`DevicePtr::NULL`], and freeing it does nothing. The
//!    functions that both traits provide see to that for every resource: they do not call the hooks
//!    ([`do_allocate`](Resource::do_allocate) and the others), so adaptors neither count, log nor
//!    track such requests.
//! 6. The address is a multiple of the layout's alignment; every resource supports every power of
//!    two up to [`CUDA_ALLOCATION_ALIGNMENT`], and supports a larger one or refuses it with an
//!    error.
//!
//! # No device needed
//!
//! Everything calls the driver through one table of functions ([`rmm_sys::Driver`]), which
//! `rmm-sim` implements in software:
//!
//! ```
//! use rmm_core::{CudaStream, Device};
//!
//! # fn main() -> Result<(), rmm_core::Error> {
//! let machine = rmm_sim::Machine::new();
//! let _entered = machine.enter(); // this thread now sees the software device
//! let stream = CudaStream::new()?;
//! stream.synchronize()?;
//! assert_eq!(Device::current()?.ordinal(), 0);
//! # Ok(())
//! # }
//! ```

#![debugger_visualizer(gdb_script_file = "debugger.py")]

#[doc(hidden)]
pub mod accessible_from;
mod adaptor;
#[doc(hidden)]
pub mod adaptor_support;
mod alignment;
mod annotate;
#[doc(hidden)]
pub mod backoff;
mod capabilities;
mod capture;
mod context;
pub mod copy;
mod device;
mod device_usage;
mod driver;
#[doc(hidden)]
pub mod driver_pools;
mod effort;
mod erased;
mod error;
mod event;
mod exit;
#[doc(hidden)]
pub mod fork;
#[doc(hidden)]
pub mod known_contexts;
mod limit_id;
mod memory_kind;
mod oom;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod peer;
pub mod per_device;
mod prefetch;
mod property;
mod proposal;
mod remedy;
mod resource;
#[doc(hidden)]
pub mod siblings;
mod size;
mod stream;
mod stream_pool;
mod synchronized;
mod timed_event;
pub mod wait;

pub use alignment::allocation_alignment;
pub use annotate::Annotator;
pub use capabilities::Capabilities;
#[doc(hidden)]
pub use capture::synchronize_unless_captured;
pub use capture::{CaptureScope, RelaxedCapture};
pub use context::{Context, ContextGuard};
pub use device::{Device, DeviceGuard, MemoryInfo};
pub use device_usage::DeviceUsage;
#[doc(hidden)]
pub use driver::ask_again;
pub use driver::{check, current_driver, driver_for_drop, driver_in_context};
pub use effort::{Effort, EffortScope, effort};
pub use erased::{
    AnySynchronousResource, DeviceAsyncResourceRef, DeviceResourceRef, ErasableAs,
    HostAsyncResourceRef, HostDeviceAsyncResourceRef, HostDeviceResourceRef, HostResourceRef,
    ResourceRef, SynchronousResourceRef,
};
pub use error::{Error, ErrorKind};
pub use event::{CudaEvent, EventFlags, EventRef};
pub use exit::process_is_exiting;
pub use limit_id::LimitId;
pub use memory_kind::{HasMemoryKind, MemoryCaps, MemoryKind};
pub use oom::{OomReason, PendingBytes, PoolUsage};
pub use prefetch::{PrefetchTarget, prefetch};
pub use property::{
    Contains, DeviceAccessible, HasProperty, HasPropertyValue, HostAccessible,
    HostDeviceAccessible, Property, PropertyId, PropertySet, PropertyWithValue, SatisfiedBy,
};
pub use proposal::{AnyContext, MemoryResource, ResourceView, StreamBound, StreamContext};
pub use remedy::{Remedy, RemedyAction};
pub use resource::{
    AnyResource, AsDyn, Description, DeviceResource, ExtendableResource, HasResource, Introspect,
    Metric, Order, PropertySink, Query, Resource, Stack, StreamOrdered, Structure, Synchronous,
    SynchronousResource, TrimmableResource,
};
/// The driver's functions, handles and codes, as they appear in this crate's interface.
pub use rmm_sys as sys;
pub use rmm_sys::CuDevicePtr as DevicePtr;
pub use size::{
    CUDA_ALLOCATION_ALIGNMENT, HOST_ALLOCATION_ALIGNMENT, align_down, align_up, format_bytes,
    is_aligned, is_pointer_aligned, is_supported_alignment, is_supported_base_resource_alignment,
};
#[doc(hidden)]
pub use stream::AnnouncedStream;
pub use stream::{
    CudaStream, RetiringStream, StreamFlags, StreamId, StreamKind, StreamLifetime, StreamRef,
    StreamWatcher, WeakStream, stream_priority_range,
};
pub use stream_pool::CudaStreamPool;
pub use synchronized::Synchronized;
pub use timed_event::TimedEvent;
