//! Suballocators: resources that divide memory of their upstream.

mod arena;
mod binning;
mod default_pool;
mod fixed_size;
mod pool;

pub use arena::{ArenaMemoryResource, ArenaMemoryResourceBuilder, ArenaReport};
pub use binning::{BinningMemoryResource, BinningMemoryResourceBuilder};
pub use default_pool::default_pool;
pub use fixed_size::{FixedSizeMemoryResource, FixedSizeMemoryResourceBuilder};
pub(crate) use pool::PoolSource;
pub use pool::{
    Contents, CopyProgress, GrowthPolicy, ManualClock, PoolBlock, PoolCheckpoint,
    PoolMemoryResource, PoolMemoryResourceBuilder, PoolPreset, PoolStatistics, Pressure,
    PressureCallback, ReleasePolicy, Reservation, Restored, Segment, SegmentEvent, SegmentGuard,
    SleepOptions, SpanPolicy,
};
#[doc(hidden)]
pub use pool::{DeadlineWake, last_deadline_wake};
