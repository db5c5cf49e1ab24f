//! A stream-ordered pool.
//!
//! ```text
//!     api                            what users call
//!      |
//!     steps                          how an allocation, a free, a trim or sleep is done
//!      |
//!     state                          the lock and what it protects
//!      |
//!     timeline    caches    heap     which work is complete; blocks of threads; all blocks
//!      |
//!     values                         policies, limits and counters: no part of the pool
//! ```
//!
//! Each folder uses those below it, never one above or beside it.

mod api;
mod caches;
mod heap;
mod state;
mod steps;
mod timeline;
mod values;

pub use api::builder::PoolMemoryResourceBuilder;
pub use api::pool::PoolMemoryResource;
pub use api::reservation::Reservation;
pub(crate) use api::source::PoolSource;
pub(crate) use caches::CachePolicy;
pub(crate) use state::core::padded_size;
pub use state::pressure_callbacks::{Pressure, PressureCallback};
pub use state::segments::{Segment, SegmentEvent, SegmentGuard};
#[doc(hidden)]
pub use steps::ladder::deadline::{DeadlineWake, last_deadline_wake};
pub use values::checkpoint::{PoolCheckpoint, Restored};
pub use values::idle_time::ManualClock;
pub use values::policy::{GrowthPolicy, PoolPreset, ReleasePolicy, SpanPolicy};
pub use values::sleep_options::{Contents, CopyProgress, SleepOptions};
pub use values::statistics::{PoolBlock, PoolStatistics};
