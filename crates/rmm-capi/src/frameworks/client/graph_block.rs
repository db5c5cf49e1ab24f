//! Blocks that were freed in a capture, and stay for its graph.

use std::ffi::c_void;

use rmm_core::DevicePtr;

use super::block::Block;
use super::table;
use crate::handle::failure::Failure;

/// A block that its client has freed, and that a graph uses.
#[derive(Debug)]
pub struct GraphBlockHandle {
    block: Block,
    address: usize,
}

impl GraphBlockHandle {
    /// Frees a block, whose memory stays allocated.
    ///
    /// # Errors
    /// If no such block is allocated.
    pub(crate) fn new(pointer: *mut c_void) -> Result<Self, Failure> {
        let address = pointer.expose_provenance();
        let block = table::take_allocated(address)?;
        block.count_return();
        Ok(Self { block, address })
    }

    /// Gives the memory back.
    ///
    /// # Errors
    /// If the device cannot be made current. Then the memory stays allocated.
    ///
    /// # Safety
    /// The clause on graphs.
    pub(crate) unsafe fn release(&self) -> Result<(), Failure> {
        let _current = self.block.client.device.enter()?;
        // SAFETY: 1. It left the table in `new`, and its device is current. 2. By the caller's
        // contract its uses are complete.
        unsafe { self.block.return_sync(DevicePtr::new(self.address as u64)) }
    }
}
