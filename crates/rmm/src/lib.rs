//! GPU memory management: memory resources, stream-ordered pools, and containers in device memory.
//!
//! This is [RAPIDS RMM](https://github.com/rapidsai/rmm) for Rust, and the crate that most programs
//! depend on. It adds nothing of its own: the parts are `rmm-core` (concepts), `rmm-resources`
//! (memory from the driver), `rmm-adaptors` (pools and adaptors), `rmm-spec` (stacks of them from
//! text) and `rmm-containers`.
//!
//! ```
//! use rmm::prelude::*;
//!
//! # fn main() -> Result<(), rmm::Error> {
//! # let machine = rmm_sim::Machine::new();
//! # let _entered = machine.enter();
//! # let (host, n) = (vec![1.0f32; 1000], 500);
//! let pool = PoolMemoryResource::builder(CudaMemoryResource::new())
//!     .initial_size(1 << 30)
//!     .maximum_size(8 << 30)
//!     .build()?;
//! rmm::set_current_device_resource(&pool)?; // returns the previous one, owned
//!
//! let stream = CudaStream::new()?;
//! let v = DeviceUVector::<f32>::from_slice(&host, &stream)?; // from the current resource, on `stream`
//! let w = DeviceUVector::<f32>::uninit_in(n, &stream, &pool)?; // or from a named one
//! let back: Vec<f32> = v.to_vec()?;
//! # assert_eq!(back, host);
//! # assert_eq!(w.len(), n);
//! # assert_eq!(pool.statistics().allocations, 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | memory resources over the driver | [`CudaMemoryResource`], [`CudaAsyncMemoryResource`], [`VirtualMemoryResource`], and those for managed, pinned and host memory |
//! | suballocators | [`PoolMemoryResource`]; [`FixedSizeMemoryResource`] and [`BinningMemoryResource`] by size, [`ArenaMemoryResource`] by stream |
//! | adaptors that observe | [`LoggingResourceAdaptor`], [`StatisticsResourceAdaptor`], [`TrackingResourceAdaptor`] for leaks, [`TaggedResourceAdaptor`] for attribution |
//! | adaptors that limit or fall back | [`LimitingResourceAdaptor`], [`FallbackMemoryResource`], [`FailureCallbackResourceAdaptor`] |
//! | a stack of resources from text | [`ResourceSpec`] |
//! | type-erased resources | [`AnyResource`], [`ResourceRef`] |
//! | the current resource of each device | [`current_device_resource`], [`set_current_device_resource`] |
//! | containers in device memory | [`DeviceBuffer`], [`DeviceUVector`], [`DeviceScalar`]; [`DeviceSlice`], [`DeviceSliceMut`] for parts of them on several streams |
//! | memory shared by host and devices | [`PinnedVec`], [`ManagedVec`] |
//! | element types of your own | [`bytemuck`], whose `Pod` marks them |
//! | streams and events | [`CudaStream`], [`StreamRef`], [`CudaEvent`], [`CudaStreamPool`] |
//! | errors | [`Error`], [`ErrorKind`] |
//!
//! The root holds what most programs name. The rest is in modules:
//!
//! | module | what |
//! |---|---|
//! | [`mr`] | all memory resources and adaptors, with their builders, policies and statistics |
//! | [`containers`] | all containers |
//! | [`stream`], [`device`] | stream flags and priorities, contexts, capture; device capabilities, free memory, prefetching |
//! | [`property`], [`introspect`] | what memory can be accessed from; what a stack of resources consists of |
//! | [`error`] | what an out-of-memory error knows |
//! | [`custom`] | writing a memory resource or an adaptor |
//! | [`proposal`] | the CUDA `<memory_resource>` proposal's kinds, capabilities and views |
//! | [`driver`] | the driver API beside this library |
//!
//! Every item can be found by the name that it has in RMM or CUDA: search for `device_uvector` or
//! `cudaMallocAsync`.
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | what it adds |
//! |---|---|
//! | `tracing` | `TracingResourceAdaptor`, and events and spans where pools grow and wait |
//! | `allocator-api2` | `HostAllocator`: collections of the host in the memory of a resource |
//! | `half` | `f16` and `bf16` of that crate, which is then `rmm::half`, as elements of containers |
//!
//! # Without a GPU
//!
//! No driver is needed to build or to start a program; its absence is an [`Error`] when memory is
//! first asked for. Without a GPU, the software device of `rmm-sim` takes the driver's place: every
//! example of these crates runs on it.

/// The guide to checking the order of work on memory: its examples run as tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/checking-stream-order.md")]
mod checking_stream_order {}

/// The guide to containers and the order of what streams do to them.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/containers.md")]
mod containers_guide {}

/// What those who come from RMM find where, likewise.
#[cfg(doctest)]
mod migrating_from_rmm {
    #[doc = include_str!("../../../docs/migrating-from-rmm.md")]
    mod overview {}
    #[doc = include_str!("../../../docs/migrating/concepts.md")]
    mod concepts {}
    #[doc = include_str!("../../../docs/migrating/resources.md")]
    mod resources {}
    #[doc = include_str!("../../../docs/migrating/adaptors.md")]
    mod adaptors {}
    #[doc = include_str!("../../../docs/migrating/containers.md")]
    mod containers {}
    #[doc = include_str!("../../../docs/migrating/streams-and-devices.md")]
    mod streams_and_devices {}
    #[doc = include_str!("../../../docs/migrating/errors-and-logging.md")]
    mod errors_and_logging {}
    #[doc = include_str!("../../../docs/migrating/python.md")]
    mod python {}
}

/// The guide to watching memory with `tracing`, likewise.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tracing.md")]
mod tracing {}

pub mod containers;
pub mod custom;
pub mod device;
pub mod driver;
pub mod error;
pub mod introspect;
pub mod mr;
pub mod property;
pub mod proposal;
pub mod stream;

pub use rmm_containers::bytemuck;
#[cfg(feature = "half")]
pub use rmm_containers::half;

#[doc(inline)]
pub use containers::{
    DeviceBuffer, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceUVector, ManagedVec, PinnedVec,
};
#[doc(inline)]
pub use device::{Device, DevicePtr};
#[doc(inline)]
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "tracing")]
#[doc(inline)]
pub use mr::TracingResourceAdaptor;
#[doc(inline)]
pub use mr::{
    AlignedResourceAdaptor, AnyResource, ArenaMemoryResource, BinningMemoryResource,
    CallbackMemoryResource, CudaAsyncMemoryResource, CudaMemoryResource,
    FailureCallbackResourceAdaptor, FallbackMemoryResource, FixedSizeMemoryResource,
    HostMemoryResource, LimitingResourceAdaptor, LoggingResourceAdaptor, ManagedMemoryResource,
    PinnedHostMemoryResource, PoolMemoryResource, PrefetchResourceAdaptor, Resource, ResourceRef,
    ResourceSpec, StatisticsResourceAdaptor, SyncResource, TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor, TrackingResourceAdaptor, VirtualMemoryResource,
    current_device_resource, reset_current_device_resource, set_current_device_resource,
};
#[doc(inline)]
pub use stream::{CudaEvent, CudaStream, CudaStreamPool, StreamRef};

/// What most programs use: the resources, streams and containers, and the traits whose methods are
/// called on them.
///
/// ```
/// use rmm::prelude::*;
///
/// let resource: AnyResource = AnyResource::new(CudaMemoryResource::new());
/// assert_eq!(resource.name(), "cuda"); // a method of `SyncResource`
/// ```
pub mod prelude {
    pub use crate::introspect::Introspect;
    pub use crate::{
        AnyResource, CudaAsyncMemoryResource, CudaEvent, CudaMemoryResource, CudaStream,
        DeviceBuffer, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceUVector,
        LoggingResourceAdaptor, ManagedVec, PinnedVec, PoolMemoryResource, Resource, ResourceRef,
        StreamRef, SyncResource,
    };
}
