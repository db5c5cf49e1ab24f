//! The live blocks of frameworks, by address: where each goes back to, and which streams use it.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::LazyLock;

use dashmap::DashMap;
use rmm_core::AnyResource;
use rmm_core::sys::CuStream;

use super::device::Device;
use crate::handle::failure::Failure;

static BLOCKS: LazyLock<DashMap<usize, Block>> = LazyLock::new(DashMap::new);

/// A block that a framework has.
#[derive(Debug)]
pub(crate) struct Block {
    /// The resource that it came from, which may not be the device's current one any more.
    pub(crate) resource: AnyResource<()>,
    pub(crate) device: &'static Device,
    pub(crate) bytes: usize,
    /// The streams that use it and were announced.
    pub(crate) recorded: Vec<CuStream>,
}

/// Enters a block that was allocated. Null is none.
pub(crate) fn enter(
    pointer: *mut c_void,
    resource: AnyResource<()>,
    device: &'static Device,
    bytes: usize,
) {
    if !pointer.is_null() {
        let block = Block { resource, device, bytes, recorded: Vec::new() };
        let replaced = BLOCKS.insert(pointer.addr(), block);
        drop(replaced);
    }
}

/// Notes that the stream uses the block. Memory of others is not known here: frameworks announce
/// uses of all tensors.
pub(crate) fn record(pointer: *mut c_void, stream: CuStream) {
    if let Some(mut block) = BLOCKS.get_mut(&pointer.addr())
        && !block.recorded.contains(&stream)
    {
        block.recorded.push(stream);
    }
}

/// Frees a block by `free`. If that fails the memory stays allocated, and its resource alive.
///
/// # Errors
/// If no such block is live, and that of `free`.
pub(crate) fn free(
    pointer: *mut c_void,
    free: impl FnOnce(&Block) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Removed before it is free, when another thread can get the same address.
    let Some((_, block)) = BLOCKS.remove(&pointer.addr()) else {
        return Err(Failure::invalid(format!("no memory at {pointer:p} was allocated here")));
    };
    let freed = free(&block);
    if freed.is_err() {
        let _leaked = ManuallyDrop::new(block.resource);
    }
    freed
}

/// The resource of each live block.
pub(crate) fn resources() -> Vec<AnyResource<()>> {
    BLOCKS.iter().map(|block| block.resource.clone()).collect()
}
