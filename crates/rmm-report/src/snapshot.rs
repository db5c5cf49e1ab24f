//! A snapshot of what a stack of resources holds.

use rmm_adaptors::{PoolBlock, PoolStatistics};
use rmm_core::{AnyResource, Description, Device, Error, Introspect as _};

use crate::suballocators::Suballocators;

/// A stack of resources at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// What the page is headed by, such as the name of the resource.
    pub title: String,
    /// The current device, as the driver names it.
    pub device: String,
    /// The free bytes of the device.
    pub free_bytes: u64,
    /// The bytes of the device.
    pub total_bytes: u64,
    /// The stack, from the top.
    pub description: Description,
    /// The counters and blocks of each pool in the stack, from the bottom.
    pub pools: Vec<(PoolStatistics, Vec<PoolBlock>)>,
}

impl Snapshot {
    /// Asks the resource, those below it, and the current device.
    ///
    /// # Errors
    /// The driver's error.
    pub fn take(title: impl Into<String>, resource: &AnyResource) -> Result<Self, Error> {
        let memory = Device::memory_info()?;
        Ok(Self {
            title: title.into(),
            device: Device::current()?.name()?,
            free_bytes: memory.free,
            total_bytes: memory.total,
            description: resource.describe(),
            pools: Suballocators::of(resource).maps(),
        })
    }
}
