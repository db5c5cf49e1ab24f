//! GPU memory management: memory resources, stream-ordered pools, and containers for device memory.
//!
//! This is [RAPIDS RMM](https://github.com/rapidsai/rmm) for Rust. Programs depend on this crate,
//! which re-exports its parts: `rmm-core` (concepts), `rmm-resources` (memory from the driver),
//! `rmm-adaptors` (pools and adaptors), `rmm-containers`, and `rmm-spec` (resources from text).
//!
//! ```text
//! above   your program
//! here    rmm-rs: one name for what is below
//! below   rmm-spec > rmm-adaptors; rmm-containers; both > rmm-resources > rmm-core > rmm-sys
//! ```
//!
//! ```
//! use rmm::prelude::*;
//!
//! # fn main() -> rmm::Result<()> {
//! # let _machine = rmm_sim::enter();
//! # let (host, n) = (vec![1.0f32; 1000], 500);
//! let pool = rmm::default_pool()?; // over virtual memory, or else `cudaMalloc`
//! rmm::set_current_device_resource(&pool)?; // returns the previous one, owned
//!
//! let stream = CudaStream::new()?;
//! let v = DeviceUVector::from_slice(&host, &stream)?; // from the current resource, on `stream`
//! let w = DeviceUVector::<f32>::zeroed_in(n, &stream, &pool)?; // or from a named one
//! let back: Vec<f32> = v.to_vec()?;
//! # assert_eq!(back, host);
//! # assert_eq!(w.len(), n);
//! # assert_eq!(pool.statistics().allocations, 2);
//! # Ok(())
//! # }
//! ```
//!
//! The driver is found when it is first needed. Without a GPU a program runs on the software
//! device, a library in the driver's place: `cargo build --release -p rmm-sim-driver` in a
//! checkout, and `RMM_CUDA_LIBRARY=target/release/librmm_sim_driver.so` in its environment.
//!
//! # Containers
//!
//! [`DeviceBuffer`] holds bytes, [`DeviceUVector`] elements of a [`Pod`](bytemuck::Pod) type, and
//! [`DeviceScalar`] one element. [`PinnedVec`] and [`ManagedVec`] hold elements that the host
//! accesses, too. All have the same constructors: `uninit`, `zeroed`, `filled`, `from_slice`,
//! `from_fn`. Without suffix they allocate from the current resource of the stream's device; with
//! `_in`, from the resource that is named last. Arguments come in the order what, how many, stream,
//! resource. [`ElasticBuffer`] reserves addresses for a maximum, and its memory comes and goes in
//! place.
//!
//! A container belongs to a stream. Methods work on that stream; those that end in `_on` work on
//! the stream that is named, after waiting for conflicting work on others. So programs need no
//! events, and safe code cannot race. For kernels, [`use_on`](DeviceUVector::use_on) and
//! [`use_on_mut`](DeviceUVector::use_on_mut) give the address for work on a stream, in the same
//! order:
//!
//! ```
//! use rmm::prelude::*;
//!
//! # let machine = rmm_sim::enter();
//! # let launch = |pointer: rmm::DevicePtr, bytes, stream: StreamRef<'_>| {
//! #     let kernel = rmm_sim::Kernel::new("saxpy", |_| ()).writes(pointer, bytes);
//! #     machine.launch(stream.as_raw(), kernel).expect("the memory belongs to the device");
//! # };
//! let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
//! let mut y = DeviceUVector::filled(1.0f32, 1000, &stream)?;
//! let used = y.use_on_mut(&other)?; // `other` waits for `stream`
//! launch(used.as_ptr(), used.bytes(), used.stream()); // your kernel: cudarc, or the driver API
//! assert_eq!(y.to_vec()?.len(), 1000); // `stream` waits for the kernel
//! # machine.assert_no_violations();
//! # Ok::<(), rmm::Error>(())
//! ```
//!
//! **Several streams and staging.** A [`CudaStreamPool`] assigns streams round-robin. Copies from
//! and to a [`PinnedVec`] are enqueued without waiting; the host waits when it accesses the vector
//! again:
//!
//! ```
//! use rmm::CudaStreamPool;
//! use rmm::prelude::*;
//! use rmm::stream::StreamFlags;
//!
//! # let _machine = rmm_sim::enter();
//! let streams = CudaStreamPool::new(4, StreamFlags::NON_BLOCKING)?;
//! let mut staging = PinnedVec::filled(1.0f32, 1 << 16)?;
//! let x = staging.device_slice().to_device(streams.get())?; // enqueues an upload
//! staging.as_mut_slice()?.fill(2.0); // waits for the upload
//! staging.copy_from_device(x.as_slice(), streams.get())?; // enqueues a download
//! assert_eq!(staging.as_slice()?[0], 1.0); // waits for the download
//! # Ok::<(), rmm::Error>(())
//! ```
//!
//! A pipeline has two such vectors for each stream, one to upload and one to download, so that the
//! host fills the next chunk while the device copies and computes.
//!
//! **Threads.** Containers, streams and resources are `Send` and `Sync`: share a buffer as
//! `Arc<DeviceBuffer>`, and read it on each thread's stream with `as_slice().to_vec_on(&stream)`.
//! [`Arc::get_mut`](std::sync::Arc::get_mut) and `try_clone_on` make it copy-on-write, and
//! [`cast`](DeviceSlice::cast) views bytes as elements.
//!
//! **Devices.** A container is on the device of its stream, and takes that device's current
//! resource, whichever device is current. Memory of `cudaMalloc` can be copied to any device; the
//! default pool's to those that its
//! [memory is accessible from](mr::virtual_memory::VirtualMemoryResourceBuilder::accessible_from):
//!
//! ```
//! use rmm::prelude::*;
//! use rmm::mr::current::set_per_device_resource;
//!
//! # let _machine = rmm_sim::Machine::builder().devices(2).enter();
//! let mut streams = Vec::new();
//! for device in Device::all()? {
//!     let _current = device.make_current()?; // until the guard is dropped
//!     let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
//!     set_per_device_resource(device, &pool)?;
//!     streams.push(CudaStream::new()?); // on the current device
//! }
//! let x = DeviceUVector::filled(1.0f32, 1000, &streams[0])?;
//! let y = x.as_slice().to_device(&streams[1])?; // a copy on the other device
//! assert_eq!(y.device()?.ordinal(), 1);
//! # Ok::<(), rmm::Error>(())
//! ```
//!
//! # Resources
//!
//! [`default_pool`] makes the pool to begin with: over virtual memory where the device has it, over
//! `cudaMalloc` elsewhere. [`PoolMemoryResource::default_builder`] makes it with options, such as a
//! limit; [`PoolMemoryResource::builder`] makes one over any other resource:
//!
//! ```
//! use rmm::mr::pool::PoolPreset;
//! use rmm::prelude::*;
//!
//! # let _machine = rmm_sim::enter();
//! let pool = PoolMemoryResource::default_builder()?.maximum_size(8 << 30).build()?;
//! // For a program that exports memory by `cudaIpcGetMemHandle`:
//! let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
//! let exported = builder.preset(PoolPreset::LowLatency).build()?;
//! # assert_ne!(pool.default_memory(), exported.default_memory());
//! # Ok::<(), rmm::Error>(())
//! ```
//!
//! - Memory from the driver: [`VirtualMemoryResource`], [`CudaMemoryResource`],
//!   [`CudaAsyncMemoryResource`], [`ManagedMemoryResource`], [`PinnedHostMemoryResource`] and
//!   [`HostMemoryResource`].
//! - Suballocators: [`PoolMemoryResource`]; [`ArenaMemoryResource`], a pool of a fixed size;
//!   [`FixedSizeMemoryResource`] and [`BinningMemoryResource`] by size.
//! - Adaptors that observe: [`LoggingResourceAdaptor`], [`StatisticsResourceAdaptor`],
//!   [`TrackingResourceAdaptor`] for leaks, [`TaggedResourceAdaptor`] for bytes by tag, and
//!   [`RecorderResourceAdaptor`](mr::RecorderResourceAdaptor) for the calls before a failure.
//! - Adaptors that limit or fall back: [`LimitingResourceAdaptor`], [`FallbackMemoryResource`],
//!   [`FailureCallbackResourceAdaptor`].
//! - Type-erased resources: [`AnyResource`] (owned) and [`ResourceRef`] (borrowed).
//! - A resource from a line of text: [`ResourceSpec`].
//!
//! Resources are handles: clones share state. Adaptors wrap any resource, and a type-erased stack
//! still finds each of its parts:
//!
//! ```
//! use rmm::prelude::*;
//! use rmm::{LimitingResourceAdaptor, LoggingResourceAdaptor, StatisticsResourceAdaptor};
//!
//! # let _machine = rmm_sim::enter();
//! let pool = rmm::default_pool()?;
//! let log = std::env::temp_dir().join(format!("rmm-{}.csv", std::process::id()));
//! let mr = LoggingResourceAdaptor::create(pool, &log)?;
//! let mr = LimitingResourceAdaptor::new(mr, 1 << 20); // at most 1 MiB at a time
//! let mr = StatisticsResourceAdaptor::new(mr);
//! let buffer = DeviceBuffer::zeroed_in(1000, &CudaStream::new()?, &mr)?;
//! assert_eq!(mr.counters().bytes.value, 1000);
//! let any: AnyResource = AnyResource::new(mr);
//! assert!(any.find::<rmm::PoolMemoryResource>().is_some());
//! # drop(buffer);
//! # std::fs::remove_file(log)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **A custom resource** implements [`SynchronousResource`] and [`Resource`], which are `unsafe`:
//! their contract is [stream order](Resource). [`HasProperty`](property::HasProperty) declares from
//! where its memory can be accessed. Containers keep a clone of their resource: clones are the same
//! resource, and equal resources may free each other's memory. This one reuses slabs of 1 MiB on
//! the stream that they were freed on, which needs no event, since the work that used them was
//! enqueued there before. It does so on streams that this library owns: a default stream is another
//! one on each device or thread, and a foreign handle may name another stream at each call:
//!
//! ```
//! use std::alloc::Layout;
//! use std::collections::HashMap;
//! use std::sync::{Arc, Mutex};
//!
//! use rmm::custom::{Query, Structure};
//! use rmm::prelude::*;
//! use rmm::property::{DeviceAccessible, HasProperty};
//! use rmm::stream::{StreamId, StreamKind};
//! use rmm::{DevicePtr, Result};
//!
//! #[derive(Clone, Debug)]
//! struct Slabs {
//!     upstream: CudaMemoryResource,
//!     free: Arc<Mutex<HashMap<StreamId, Vec<DevicePtr>>>>,
//! }
//!
//! impl PartialEq for Slabs {
//!     fn eq(&self, other: &Self) -> bool {
//!         Arc::ptr_eq(&self.free, &other.free)
//!     }
//! }
//!
//! fn slab() -> Layout {
//!     Layout::from_size_align(1 << 20, 256).expect("a power of two")
//! }
//!
//! fn fits(layout: Layout) -> bool {
//!     layout.size() <= 1 << 20 && layout.align() <= 256
//! }
//!
//! // SAFETY: all memory is the upstream's, which keeps the contract.
//! unsafe impl SynchronousResource for Slabs {
//!     fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr> {
//!         self.upstream.allocate_sync(layout)
//!     }
//!
//!     unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
//!         // SAFETY: the caller's contract is the same.
//!         unsafe { self.upstream.deallocate_sync(pointer, layout) }
//!     }
//!
//!     fn name(&self) -> &'static str {
//!         "slabs" // in errors and logs
//!     }
//!
//!     fn structure(&self) -> Structure<'_>
//!     where
//!         Self: 'static,
//!     {
//!         Structure::over(&self.upstream)
//!     }
//!
//!     fn provide<'a>(&'a self, query: &mut Query<'a>) {
//!         query.properties(self).has::<DeviceAccessible>(); // for type-erased handles
//!     }
//! }
//!
//! // SAFETY: a slab is reused only in the order of the stream that it was freed on.
//! unsafe impl Resource for Slabs {
//!     fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr> {
//!         if !fits(layout) {
//!             return self.upstream.allocate(stream, layout);
//!         }
//!         // Slabs are freed into lists of owned streams alone.
//!         let mut free = self.free.lock().expect("no thread panics with the lock");
//!         match free.get_mut(&stream.id()).and_then(Vec::pop) {
//!             Some(slab) => Ok(slab),
//!             None => self.upstream.allocate(stream, slab()),
//!         }
//!     }
//!
//!     unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
//!         if !fits(layout) {
//!             // SAFETY: the memory is the upstream's, and the caller's contract is the same.
//!             return unsafe { self.upstream.deallocate(stream, pointer, layout) };
//!         }
//!         if stream.kind() != StreamKind::Owned {
//!             // SAFETY: allocated there with this layout; the stream is the caller's.
//!             return unsafe { self.upstream.deallocate(stream, pointer, slab()) };
//!         }
//!         let mut free = self.free.lock().expect("no thread panics with the lock");
//!         free.entry(stream.id()).or_default().push(pointer);
//!     }
//! }
//!
//! // SAFETY: all memory is from `cudaMalloc`.
//! unsafe impl HasProperty<DeviceAccessible> for Slabs {}
//! # let machine = rmm_sim::enter();
//! # let slabs = Slabs { upstream: CudaMemoryResource::new(), free: Arc::default() };
//! # let stream = CudaStream::new()?;
//! # let address = DeviceBuffer::zeroed_in(100, &stream, &slabs)?.as_ptr();
//! # let buffer = DeviceBuffer::zeroed_in(200, &stream, &slabs)?;
//! # assert_eq!(buffer.as_ptr(), address);
//! # drop(buffer);
//! # assert_eq!(slabs.free.lock().unwrap()[&stream.id()], [address]);
//! # machine.assert_no_violations();
//! # Ok::<(), rmm::Error>(())
//! ```
//!
//! The example `custom_resource` also returns the slabs to the upstream when the last handle is
//! dropped. An adaptor is shorter: [`custom::adaptor!`] writes it from its `allocate`.
//!
//! # Errors
//!
//! Functions that can fail return [`Error`] (those that open a log file return
//! [`std::io::Error`]). Programs match its [`kind`](Error::kind), or call
//! [`is_out_of_memory`](Error::is_out_of_memory). The message of an out-of-memory error says what
//! was requested, what was free, and what would help. [`error`] has the details.
//!
//! # Testing without a GPU
//!
//! The driver is loaded at run time; without one, the first use returns an [`Error`]. `rmm-sim` is
//! a software device that takes its place. A test marked with `#[rmm_sim::test]` runs on it under
//! several schedules, and fails if work uses memory without being ordered after earlier conflicting
//! work:
//!
//! ```
//! use rmm::prelude::*;
//!
//! #[rmm_sim::test] // in a program: `rmm-sim` as a dev-dependency
//! fn the_copy_is_in_order(gpu: &rmm_sim::Machine) -> rmm::Result<()> {
//!     let (first, second) = (CudaStream::new()?, CudaStream::new()?);
//!     let x = DeviceUVector::filled(7, 100, &first)?;
//!     assert_eq!(x.to_vec_on(&second)?, [7; 100]);
//!     Ok(())
//! }
//!
//! // Threads that the test starts use the same software device:
//! #[rmm_sim::test(machine = rmm_sim::Machine::builder().devices(2), enter_all_threads = true)]
//! fn there_are_two_devices() -> rmm::Result<()> {
//!     let devices = std::thread::spawn(rmm::Device::count).join().expect("no panic");
//!     assert_eq!(devices?, 2);
//!     Ok(())
//! }
//! ```
//!
//! The test also fails if memory, a stream or an event leaks. A current resource is never dropped:
//! set it for a scope ([`with_current_device_resource`]), or reset it at the end. `rmm_sim::Kernel`
//! is a kernel that declares the memory that it reads and writes.
//!
//! A whole program runs on the software device while it holds the guard of
//! `rmm_sim::Machine::new().enter_all_threads()`.
//!
//! # Modules
//!
//! The root and the [`prelude`] hold what most programs name. The rest is in modules:
//!
//! - [`mr`]: all memory resources and adaptors, with their builders, policies and statistics.
//! - [`resource`]: the concepts of resources, type-erased ones, efforts, and resources from text.
//! - [`containers`]: all containers.
//! - [`sharing`]: memory that other processes map, and theirs.
//! - `lease`, with the feature of this name: memory of an owner outside the process.
//! - [`stream`]: stream flags and priorities, contexts, capture.
//! - [`device`]: device capabilities, free memory, prefetching.
//! - [`property`], [`introspect`]: what memory can be accessed from; the parts of a stack of
//!   resources.
//! - [`monitor`]: figures of the pools of a running program; with the feature `metrics`, for the
//!   crate of that name.
//! - [`error`]: the details of out-of-memory errors.
//! - [`custom`]: for authors of memory resources and adaptors.
//! - [`proposal`]: the kinds, capabilities and views of the CUDA `<memory_resource>` proposal.
//! - [`driver`]: the driver API.
//!
//! Items can be found by their names in RMM and CUDA: search for `device_uvector` or
//! `cudaMallocAsync`.
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | what it adds |
//! |---|---|
//! | `tracing` | `TracingResourceAdaptor`, and events and spans when pools grow and wait |
//! | `metrics` | `rmm::metrics`: figures of pools and tags for the crate `metrics` |
//! | `lease` | `rmm::lease`: memory of an owner outside the process, which outlives it, on Linux |
//! | `allocator-api2` | `HostAllocator`: host collections in the memory of a resource (0.2) |
//! | `allocator-api2-04` | the same by version 0.4 |
//! | `half` | `f16` and `bf16` of that crate, re-exported as `rmm::half`, as element types |

#![cfg_attr(docsrs, feature(doc_cfg))]

/// The guide to checking stream order: its examples run as tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/checking-stream-order.md")]
mod checking_stream_order {}

/// The guide to containers.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/containers.md")]
mod containers_guide {}

/// The guide to sharing memory between processes.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sharing-memory.md")]
mod sharing_memory {}

/// The guide to memory that outlives its program.
#[cfg(all(doctest, feature = "lease", target_os = "linux"))]
#[doc = include_str!("../../../docs/serving-memory.md")]
mod serving_memory {}

/// The guide to CUDA graphs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/cuda-graphs.md")]
mod cuda_graphs {}

/// The migration guide for users of RMM.
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

/// The first pages of the parts.
#[cfg(doctest)]
mod readmes {
    #[doc = include_str!("../../rmm-core/README.md")]
    mod core {}
    #[doc = include_str!("../../rmm-resources/README.md")]
    mod resources {}
    #[doc = include_str!("../../rmm-adaptors/README.md")]
    mod adaptors {}
    #[doc = include_str!("../../rmm-containers/README.md")]
    mod containers {}
    #[doc = include_str!("../../rmm-spec/README.md")]
    mod spec {}
    #[doc = include_str!("../../rmm-report/README.md")]
    mod report {}
    #[doc = include_str!("../../rmm-sim/README.md")]
    mod sim {}
    #[doc = include_str!("../../rmm-sim-macros/README.md")]
    mod sim_macros {}
}

/// The guide to `tracing`.
#[cfg(all(doctest, feature = "tracing"))]
#[doc = include_str!("../../../docs/tracing.md")]
mod tracing {}

/// The guide to watching.
#[cfg(all(doctest, feature = "metrics", target_os = "linux"))]
#[doc = include_str!("../../../docs/watching.md")]
mod watching {}

pub mod containers;
pub mod custom;
pub mod device;
pub mod driver;
pub mod error;
pub mod introspect;
#[cfg(all(feature = "lease", target_os = "linux"))]
pub mod lease;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod monitor;
pub mod mr;
pub mod property;
pub mod proposal;
pub mod resource;
#[cfg(unix)]
pub mod sharing;
pub mod stream;

pub use rmm_containers::bytemuck;
#[cfg(feature = "half")]
pub use rmm_containers::half;

#[doc(inline)]
pub use containers::{
    DeviceBuffer, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceUVector, ElasticBuffer,
    ElasticUVector, ManagedVec, PinnedVec,
};
#[doc(inline)]
pub use device::{Device, DevicePtr};
#[doc(inline)]
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "tracing")]
#[doc(inline)]
pub use mr::TracingResourceAdaptor;
#[doc(inline)]
pub use mr::current::{
    CurrentResourceGuard, current_device_resource, reset_current_device_resource,
    set_current_device_resource, with_current_device_resource,
};
#[doc(inline)]
pub use mr::{
    AlignedResourceAdaptor, ArenaMemoryResource, BinningMemoryResource, CallbackMemoryResource,
    CudaAsyncMemoryResource, CudaMemoryResource, FailureCallbackResourceAdaptor,
    FallbackMemoryResource, FixedSizeMemoryResource, HostMemoryResource, LimitingResourceAdaptor,
    LoggingResourceAdaptor, ManagedMemoryResource, PinnedHostMemoryResource, PoolMemoryResource,
    PrefetchResourceAdaptor, StatisticsResourceAdaptor, TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor, TrackingResourceAdaptor, VirtualMemoryResource, default_pool,
};
#[doc(inline)]
pub use resource::{
    AnyResource, Effort, Resource, ResourceRef, ResourceSpec, SynchronousResource, effort,
};
#[cfg(unix)]
#[doc(inline)]
pub use sharing::export;
#[doc(inline)]
pub use stream::{CudaEvent, CudaStream, CudaStreamPool, StreamRef};

/// Resources, streams and containers that most programs use, and the traits that their methods
/// belong to.
///
/// ```
/// use rmm::prelude::*;
///
/// let resource: AnyResource = AnyResource::new(CudaMemoryResource::new());
/// assert_eq!(resource.name(), "cuda"); // a method of `SynchronousResource`
/// ```
pub mod prelude {
    pub use crate::introspect::Introspect;
    pub use crate::{
        AnyResource, CudaAsyncMemoryResource, CudaEvent, CudaMemoryResource, CudaStream, Device,
        DeviceBuffer, DevicePtr, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceUVector,
        ManagedVec, PinnedVec, PoolMemoryResource, Resource, ResourceRef, StreamRef,
        SynchronousResource,
    };
}
