//! Memory resources over other resources: suballocators and adaptors.
//!
//! * [`PoolMemoryResource`] suballocates large upstream blocks in stream order, without calling the
//!   driver; [`default_pool`] makes one over the memory that suits it best.
//! * [`ArenaMemoryResource`] is a pool that takes all its memory when it is built, under RMM's name
//!   and with its options.
//! * [`FixedSizeMemoryResource`] allocates blocks of one size; [`BinningMemoryResource`] sends each
//!   request to a resource for its size.
//!
//! Adaptors forward calls to another resource and have all its properties. They are handles: clones
//! share one state.
//!
//! | adaptor | |
//! |---|---|
//! | [`LimitingResourceAdaptor`] | limits the bytes that are allocated at the same time |
//! | [`FallbackMemoryResource`] | allocates from a second resource when the first is out of memory |
//! | [`FailureCallbackResourceAdaptor`] | calls back when an allocation fails, and retries |
//! | [`AlignedResourceAdaptor`] | aligns blocks to more than 256 bytes |
//! | [`PrefetchResourceAdaptor`] | prefetches managed memory on allocation |
//! | [`StatisticsResourceAdaptor`] | counts blocks and bytes: current, peak, total |
//! | [`TaggedResourceAdaptor`] | counts bytes by tag, that is, by part of the program |
//! | [`TrackingResourceAdaptor`] | finds leaks and invalid frees |
//! | [`LoggingResourceAdaptor`] | writes a log that RMM's tools and `rmm replay` read |
//! | `TracingResourceAdaptor` | emits `tracing` events; needs the feature `tracing` |
//! | [`ThreadSafeResourceAdaptor`] | serializes calls with a mutex |
//!
//! [`CallbackMemoryResource`] is a resource made of two functions of the program.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod address_table;
mod aligned;
mod arena;
mod binning;
mod callback;
mod default_pool;
mod failure_callback;
mod fallback;
mod fixed_size;
mod hash;
mod layer;
mod limiting;
mod logging;
mod observer;
mod pool;
mod prefetch;
mod statistics;
mod sync;
mod tagged;
mod thread_safe;
mod trace;
#[cfg(feature = "tracing")]
mod tracing;
mod tracked;
mod tracking;
mod with_properties;

pub use aligned::AlignedResourceAdaptor;
pub use arena::{ArenaMemoryResource, ArenaMemoryResourceBuilder, ArenaReport};
pub use binning::{BinningMemoryResource, BinningMemoryResourceBuilder};
pub use callback::CallbackMemoryResource;
pub use default_pool::default_pool;
pub use failure_callback::{
    FailedAllocation, FailureCallbackResourceAdaptor, FailureCallbackResourceAdaptorBuilder,
};
pub use fallback::FallbackMemoryResource;
pub use fixed_size::{FixedSizeMemoryResource, FixedSizeMemoryResourceBuilder};
pub use limiting::LimitingResourceAdaptor;
pub use logging::{
    LOG_FILE_VARIABLE, LOG_HEADER, LoggingResourceAdaptor, LoggingResourceAdaptorBuilder,
};
pub use pool::{
    Contents, CopyProgress, GrowthPolicy, ManualClock, PoolBlock, PoolMemoryResource,
    PoolMemoryResourceBuilder, PoolPreset, PoolStatistics, Pressure, PressureCallback,
    ReleasePolicy, Reservation, SleepOptions, SpanPolicy,
};
pub use prefetch::PrefetchResourceAdaptor;
pub use statistics::{AllocationCounters, Counter, StatisticsResourceAdaptor, StatisticsScope};
pub use tagged::{Tag, TagScope, TagUsage, TaggedResourceAdaptor};
pub use thread_safe::ThreadSafeResourceAdaptor;
#[cfg(feature = "tracing")]
pub use tracing::TracingResourceAdaptor;
#[doc(hidden)]
pub use tracked::name_callers_by;
pub use tracked::{CallSite, OutstandingAllocation, TrackingFinding, TrackingReport};
pub use tracking::{TrackingResourceAdaptor, TrackingResourceAdaptorBuilder};
