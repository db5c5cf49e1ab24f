//! Memory resources over other resources.
//!
//! * [`PoolMemoryResource`] divides large pieces of memory up, in stream order, without calling the driver.
//! * [`LoggingResourceAdaptor`] writes what is allocated and freed to a log that RMM's tools and `rmm replay` read.

mod logging;
mod pool;

pub use logging::{LOG_HEADER, LoggingResourceAdaptor};
pub use pool::{PoolBlock, PoolMemoryResource, PoolMemoryResourceBuilder, PoolStatistics};
