//! Memory resources over other resources.
//!
//! * [`PoolMemoryResource`] divides large pieces of memory up, in stream order, without calling the driver.
//! * [`ArenaMemoryResource`] does so with an arena for each stream, so that threads do not meet.
//! * [`FixedSizeMemoryResource`] hands out blocks of one size, [`BinningMemoryResource`] sends each request to a resource for its size.
//! * [`LoggingResourceAdaptor`] writes what is allocated and freed to a log that RMM's tools and `rmm replay` read.

mod arena;
mod binning;
mod fixed_size;
mod logging;
mod pool;

pub use arena::{
    ArenaMemoryResource, ArenaMemoryResourceBuilder, ArenaOfStream, ArenaReport, ArenaStatistics,
};
pub use binning::{BinningMemoryResource, BinningMemoryResourceBuilder};
pub use fixed_size::{FixedSizeMemoryResource, FixedSizeMemoryResourceBuilder};
pub use logging::{LOG_HEADER, LoggingResourceAdaptor};
pub use pool::{
    GrowthPolicy, PoolBlock, PoolMemoryResource, PoolMemoryResourceBuilder, PoolPreset,
    PoolStatistics, ReleasePolicy,
};
