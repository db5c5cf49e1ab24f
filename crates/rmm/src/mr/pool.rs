//! Options, statistics and other types of [`PoolMemoryResource`](super::PoolMemoryResource).

pub use rmm_adaptors::{
    Contents, CopyProgress, GrowthPolicy, ManualClock, PoolBlock, PoolCheckpoint,
    PoolMemoryResourceBuilder, PoolPreset, PoolStatistics, Pressure, PressureCallback,
    ReleasePolicy, Reservation, Restored, SleepOptions, SpanPolicy, UpstreamChange,
    UpstreamObserver,
};
pub use rmm_resources::{Budget, DefaultDeviceMemory};
