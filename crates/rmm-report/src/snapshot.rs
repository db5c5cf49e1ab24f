//! What a stack of resources holds at one moment.

use rmm_adaptors::{PoolBlock, PoolMemoryResource};
use rmm_core::{AnyResource, Description, Device, Error, Introspect as _};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};

use crate::results::{BlockState, HeapBlock};

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
    /// The blocks of each pool in the stack whose type is known here: a pool over the device's
    /// memory, over virtual memory, or over a type-erased resource.
    pub pools: Vec<Vec<HeapBlock>>,
}

impl Snapshot {
    /// Asks the resource, those below it, and the current device.
    ///
    /// # Errors
    /// The driver's error.
    pub fn take(title: impl Into<String>, resource: &AnyResource) -> Result<Self, Error> {
        let memory = Device::memory_info()?;
        let pools = [
            resource.find::<PoolMemoryResource<AnyResource>>().map(PoolMemoryResource::blocks),
            resource
                .find::<PoolMemoryResource<CudaMemoryResource>>()
                .map(PoolMemoryResource::blocks),
            resource
                .find::<PoolMemoryResource<VirtualMemoryResource>>()
                .map(PoolMemoryResource::blocks),
        ];
        Ok(Self {
            title: title.into(),
            device: Device::current()?.name()?,
            free_bytes: memory.free,
            total_bytes: memory.total,
            description: resource.describe(),
            pools: pools.into_iter().flatten().map(|blocks| without_streams(&blocks)).collect(),
        })
    }
}

/// The blocks without their streams: a pool keeps those of free blocks only.
fn without_streams(blocks: &[PoolBlock]) -> Vec<HeapBlock> {
    let block = |block: &PoolBlock| HeapBlock {
        segment: u32::try_from(block.segment).unwrap_or(u32::MAX),
        offset: block.offset,
        size: block.size,
        state: if block.is_live { BlockState::Live } else { BlockState::Free },
        stream: 0,
    };
    blocks.iter().map(block).collect()
}
