//! Figures of the pools of a running program, read when someone asks: for metrics, and for a
//! program that watches this one. Nothing is counted for it that pools do not count anyway.
//!
//! Pools are found in two ways: in the current resource of each device, under the name `current`,
//! and in what the program [registers](register) under a name. Neither keeps a pool alive.
//!
//! ```
//! use rmm_adaptors::{PoolMemoryResource, monitor};
//! use rmm_resources::CudaMemoryResource;
//!
//! # fn main() -> Result<(), rmm_core::Error> {
//! # let _machine = rmm_sim::enter();
//! let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?;
//! monitor::register("workers", &pool);
//! let reading = monitor::read();
//! assert_eq!((&*reading.pools[0].pool, reading.pools[0].device), ("workers", Some(0)));
//! assert_eq!(reading.pools[0].statistics.reserved_bytes, 1 << 20);
//! drop(pool);
//! assert!(monitor::read().pools.is_empty());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod found;
mod registry;

use std::sync::Arc;

use crate::{PoolBlock, PoolStatistics, TagUsage};

pub use registry::{maps, read, register, unregister};

/// The name of pools that are in the stack of a device's current resource, and not registered.
pub const CURRENT: &str = "current";

/// The figures of all pools and tags that are known and still exist.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Reading {
    /// The pools: those registered first, in that order, then those of current resources.
    pub pools: Vec<PoolReading>,
    /// The tags, by the name of the stack that they are in.
    pub tags: Vec<TagReading>,
}

/// The figures of a pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolReading {
    /// The name of its stack. Where a stack has several pools, those after the topmost have a
    /// number behind it: `workers/2`.
    pub pool: Arc<str>,
    /// The ordinal of its device; `None` if the driver did not say.
    pub device: Option<usize>,
    /// What the resource calls itself, such as `pool` or `arena`.
    pub resource: &'static str,
    /// Its counters.
    pub statistics: PoolStatistics,
}

/// The figures of a tag in one stack.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TagReading {
    /// The name of the stack.
    pub pool: Arc<str>,
    /// The ordinal of the device of the topmost pool of the stack.
    pub device: Option<usize>,
    /// What the tag has.
    pub usage: TagUsage,
}

/// The blocks of a pool at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolMap {
    /// The name, as in [`PoolReading`].
    pub pool: Arc<str>,
    /// The ordinal of its device.
    pub device: Option<usize>,
    /// Its counters, read before its blocks.
    pub statistics: PoolStatistics,
    /// Its blocks, by address.
    pub blocks: Vec<PoolBlock>,
}
