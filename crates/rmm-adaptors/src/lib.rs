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
//! | [`RecorderResourceAdaptor`] | keeps the last calls, and writes them when memory runs out |
//! | `TracingResourceAdaptor` | emits `tracing` events; needs the feature `tracing` |
//! | [`ThreadSafeResourceAdaptor`] | serializes calls with a mutex |
//!
//! [`CallbackMemoryResource`] is a resource made of two functions of the program.
//!
//! [`monitor`] reads the figures of all pools of a running program; with the feature `metrics`, the
//! module `metrics` gives them to the crate of that name.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod adaptors;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod monitor;
mod shared;
mod suballocators;
mod sync;

pub use adaptors::{
    AlignedResourceAdaptor, AllocationCounters, CallbackMemoryResource, Counter, FailedAllocation,
    FailureCallbackResourceAdaptor, FailureCallbackResourceAdaptorBuilder, FallbackMemoryResource,
    LOG_FILE_VARIABLE, LOG_HEADER, LimitingResourceAdaptor, LogColumn, LoggingResourceAdaptor,
    LoggingResourceAdaptorBuilder, OOM_REPORT_VARIABLE, PrefetchResourceAdaptor,
    RecorderResourceAdaptor, RecorderResourceAdaptorBuilder, StatisticsResourceAdaptor,
    StatisticsScope, Tag, TagScope, TagUsage, TaggedResourceAdaptor, ThreadSafeResourceAdaptor,
    TrackingResourceAdaptor, TrackingResourceAdaptorBuilder, with_oom_report,
};
#[cfg(feature = "tracing")]
pub use adaptors::{TagLayer, TracingResourceAdaptor};
#[doc(hidden)]
pub use adaptors::{WritePage, write_pages_by};
#[doc(hidden)]
pub use shared::site::{NameFrames, NumberFrames, name_frames_by};
pub use shared::tracked::{CallSite, OutstandingAllocation, TrackingFinding, TrackingReport};
pub use suballocators::{
    ArenaMemoryResource, ArenaMemoryResourceBuilder, ArenaReport, BinningMemoryResource,
    BinningMemoryResourceBuilder, Contents, CopyProgress, FixedSizeMemoryResource,
    FixedSizeMemoryResourceBuilder, GrowthPolicy, ManualClock, PoolBlock, PoolCheckpoint,
    PoolMemoryResource, PoolMemoryResourceBuilder, PoolPreset, PoolStatistics, Pressure,
    PressureCallback, ReleasePolicy, Reservation, Restored, Segment, SegmentEvent, SegmentGuard,
    SleepOptions, SpanPolicy, default_pool,
};
#[doc(hidden)]
pub use suballocators::{DeadlineWake, last_deadline_wake};
