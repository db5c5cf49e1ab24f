//! Which blocks of a pool were live at one time.

#![forbid(unsafe_code)]

use rmm_core::DevicePtr;

/// A live block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LiveBlock {
    /// Where its memory begins.
    pub(crate) start: u64,
    /// Bytes from there.
    pub(crate) size: u64,
    /// The address that was handed out.
    pub(crate) pointer: u64,
}

/// Which blocks of a [`PoolMemoryResource`](crate::PoolMemoryResource) were live at one time, from
/// [`checkpoint`](crate::PoolMemoryResource::checkpoint).
#[derive(Clone, Debug)]
pub struct PoolCheckpoint {
    /// By address.
    pub(crate) blocks: Vec<LiveBlock>,
}

/// What [`restore`](crate::PoolMemoryResource::restore) has changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// The addresses of all blocks that were live before, by address. They are freed.
    pub freed: Vec<DevicePtr>,
    /// The addresses of all blocks that are live now, and their bytes, by address.
    pub live: Vec<(DevicePtr, u64)>,
}

impl PoolCheckpoint {
    /// The addresses of the blocks, and their bytes, by address.
    pub fn blocks(&self) -> impl Iterator<Item = (DevicePtr, u64)> + '_ {
        self.blocks.iter().map(|block| {
            let slack = block.pointer - block.start;
            (DevicePtr(block.pointer), block.size - slack)
        })
    }
}
