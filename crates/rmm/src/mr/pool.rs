//! Options, statistics and other types of [`PoolMemoryResource`](super::PoolMemoryResource).

pub use rmm_adaptors::{
    Contents, CopyProgress, GrowthPolicy, ManualClock, PoolBlock, PoolCheckpoint,
    PoolMemoryResourceBuilder, PoolPreset, PoolStatistics, Pressure, PressureCallback,
    ReleasePolicy, Reservation, Restored, Segment, SegmentEvent, SegmentGuard, SleepOptions,
    SpanPolicy,
};
pub use rmm_resources::{Budget, DefaultDeviceMemory};
