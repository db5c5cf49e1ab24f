//! Adaptors: resources that pass calls on to their upstream, and observe or change them.

mod aligned;
mod callback;
mod failure_callback;
mod fallback;
mod layer;
mod limiting;
mod logging;
mod observer;
mod prefetch;
mod recorder;
mod statistics;
mod tagged;
mod thread_safe;
#[cfg(feature = "tracing")]
mod tracing;
mod tracking;

pub use aligned::AlignedResourceAdaptor;
pub use callback::CallbackMemoryResource;
pub use failure_callback::{
    FailedAllocation, FailureCallbackResourceAdaptor, FailureCallbackResourceAdaptorBuilder,
};
pub use fallback::FallbackMemoryResource;
pub use limiting::LimitingResourceAdaptor;
pub use logging::{
    LOG_FILE_VARIABLE, LOG_HEADER, LogColumn, LoggingResourceAdaptor, LoggingResourceAdaptorBuilder,
};
pub use prefetch::PrefetchResourceAdaptor;
pub use recorder::{
    OOM_REPORT_VARIABLE, RecorderResourceAdaptor, RecorderResourceAdaptorBuilder, WritePage,
    with_oom_report, write_pages_by,
};
pub use statistics::{AllocationCounters, Counter, StatisticsResourceAdaptor, StatisticsScope};
#[cfg(feature = "tracing")]
pub use tagged::TagLayer;
pub(crate) use tagged::TagSource;
pub use tagged::{Tag, TagScope, TagUsage, TaggedResourceAdaptor};
pub use thread_safe::ThreadSafeResourceAdaptor;
#[cfg(feature = "tracing")]
pub use tracing::TracingResourceAdaptor;
pub use tracking::{TrackingResourceAdaptor, TrackingResourceAdaptorBuilder};
