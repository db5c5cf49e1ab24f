//! Memory resources over other resources.
//!
//! * [`PoolMemoryResource`] divides large pieces of memory up, in stream order, without calling the
//!   driver.
//! * [`ArenaMemoryResource`] does so with an arena for each stream, so that threads do not meet.
//! * [`FixedSizeMemoryResource`] hands out blocks of one size, [`BinningMemoryResource`] sends each
//!   request to a resource for its size.
//!
//! Adaptors pass calls on to another resource and have all its properties. They are handles: clones
//! share what they know.
//!
//! | adaptor | |
//! |---|---|
//! | [`LimitingResourceAdaptor`] | refuses more than a number of bytes at once |
//! | [`FallbackMemoryResource`] | has a second resource where the first has no memory |
//! | [`FailureCallbackResourceAdaptor`] | asks the program what to do about a failure |
//! | [`AlignedResourceAdaptor`] | aligns to more than 256 |
//! | [`PrefetchResourceAdaptor`] | moves managed memory to where it will be used |
//! | [`StatisticsResourceAdaptor`] | counts blocks and bytes |
//! | [`TaggedResourceAdaptor`] | counts them by the part of the program that they are for |
//! | [`TrackingResourceAdaptor`] | finds leaks and wrong frees |
//! | [`LoggingResourceAdaptor`] | writes a log that RMM's tools and `rmm replay` read |
//! | `TracingResourceAdaptor` | tells `tracing`; it takes the feature of that name |
//! | [`ThreadSafeResourceAdaptor`] | lets one thread in at a time |
//!
//! [`CallbackMemoryResource`] is a resource made of the program's own functions.

mod aligned;
mod arena;
mod binning;
mod blocks;
mod callback;
mod failure_callback;
mod fallback;
mod fixed_size;
mod layer;
mod limiting;
mod logging;
mod pool;
mod prefetch;
mod statistics;
mod sync;
mod tagged;
mod thread_safe;
mod trace;
#[cfg(feature = "tracing")]
mod tracing;
mod tracking;

pub use aligned::AlignedResourceAdaptor;
pub use arena::{
    ArenaMemoryResource, ArenaMemoryResourceBuilder, ArenaOfStream, ArenaReport, ArenaStatistics,
};
pub use binning::{BinningMemoryResource, BinningMemoryResourceBuilder};
pub use callback::CallbackMemoryResource;
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
    GrowthPolicy, PoolBlock, PoolMemoryResource, PoolMemoryResourceBuilder, PoolPreset,
    PoolStatistics, ReleasePolicy,
};
pub use prefetch::PrefetchResourceAdaptor;
pub use statistics::{AllocationCounters, Counter, StatisticsResourceAdaptor, StatisticsScope};
pub use tagged::{Tag, TagScope, TagUsage, TaggedResourceAdaptor};
pub use thread_safe::ThreadSafeResourceAdaptor;
#[cfg(feature = "tracing")]
pub use tracing::TracingResourceAdaptor;
pub use tracking::{
    CallSite, OutstandingAllocation, TrackingFinding, TrackingReport, TrackingResourceAdaptor,
    TrackingResourceAdaptorBuilder,
};
