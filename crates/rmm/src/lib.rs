//! GPU memory management: memory resources, stream-ordered pools, and containers in device memory.
//!
//! This is [RAPIDS RMM](https://github.com/rapidsai/rmm) for Rust, and the crate that most programs depend on. It adds nothing of its own: the
//! parts are `rmm-core` (concepts), `rmm-resources` (memory from the driver), `rmm-adaptors` (pools and adaptors), `rmm-spec` (stacks of
//! them from text) and `rmm-containers`.
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
//! let w = DeviceUVector::<f32>::uninit(n, &stream, &pool)?; // or from a named one
//! let back: Vec<f32> = v.to_vec(&stream)?;
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
//! | memory from the driver | [`CudaMemoryResource`], [`CudaAsyncMemoryResource`] and their kin for managed, pinned and host memory |
//! | allocations that cost little | [`PoolMemoryResource`]; [`FixedSizeMemoryResource`] and [`BinningMemoryResource`] by size, [`ArenaMemoryResource`] by stream |
//! | what memory does | [`LoggingResourceAdaptor`], [`StatisticsResourceAdaptor`], [`TrackingResourceAdaptor`] for leaks, [`TaggedResourceAdaptor`] for whose it is |
//! | limits, and what is behind them | [`LimitingResourceAdaptor`], [`FallbackMemoryResource`], [`FailureCallbackResourceAdaptor`] |
//! | a stack of resources from text | [`ResourceSpec`] |
//! | bytes and elements on a device | [`DeviceBuffer`], [`DeviceUVector`], [`DeviceScalar`] |
//! | elements of a type of one's own | [`bytemuck`], whose `Pod` says what may be one |
//! | parts of them, on several streams | [`DeviceSlice`], [`DeviceSliceMut`] |
//! | memory that the host and devices share | [`PinnedVec`], [`ManagedVec`] |
//! | the resource used where none is named | [`current_device_resource`], [`set_current_device_resource`] |
//! | order of work | [`CudaStream`], [`StreamRef`], [`CudaEvent`], [`CudaStreamPool`] |
//! | resources whose type is forgotten | [`AnyResource`], [`ResourceRef`] |
//! | a resource of one's own | [`SyncResource`], [`Resource`], [`HasProperty`] |
//! | why something failed | [`Error`], [`ErrorKind`] |
//! | the driver's own functions and handles | [`sys`] |
//!
//! Every item can be found by the name that it has in RMM or CUDA: search for `device_uvector` or `cudaMallocAsync`.
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
//! No driver is needed to build or to start a program; its absence is an [`Error`] when memory is first asked for.
//! Without a GPU, the software device of `rmm-sim` takes the driver's place: every example of these crates runs on it.

/// The guide to checking the order of work on memory: its examples run as tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/checking-stream-order.md")]
mod checking_stream_order {}

/// The guide to containers and the order of what streams do to them.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/containers.md")]
mod containers {}

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

pub use rmm_adaptors::*;
#[cfg(feature = "allocator-api2")]
pub use rmm_containers::HostAllocator;
pub use rmm_containers::bytemuck;
#[cfg(feature = "half")]
pub use rmm_containers::half;
pub use rmm_containers::{
    DeviceBuffer, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceUVector, HostVec, ManagedVec,
    OnStream, PinnedVec,
};
pub use rmm_core::*;
pub use rmm_resources::*;
pub use rmm_spec::{RESOURCE_VARIABLE, ResourceSpec, SpecError};

/// What most programs use: the resources, streams and containers, and the traits whose methods are called on them.
///
/// ```
/// use rmm::prelude::*;
///
/// let resource: AnyResource = AnyResource::new(CudaMemoryResource::new());
/// assert_eq!(resource.name(), "cuda"); // a method of `SyncResource`
/// ```
pub mod prelude {
    pub use crate::{
        AnyResource, CudaAsyncMemoryResource, CudaEvent, CudaMemoryResource, CudaStream,
        DeviceBuffer, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceUVector, Introspect,
        LoggingResourceAdaptor, ManagedVec, PinnedVec, PoolMemoryResource, Resource, ResourceRef,
        StreamRef, SyncResource,
    };
}
