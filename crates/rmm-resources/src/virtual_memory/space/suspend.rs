//! Blocks without physical memory, whose addresses stay taken.
//!
//! A block is suspended in steps, and resumed by the same steps backwards. Each step is one driver
//! call that may fail, so a block can stop at any of them; what it holds says where.
//!
//! ```text
//! in use        mapped, accessible           not in the table
//!   | cuMemRetainAllocationHandle                 ^ cuMemRelease, if there is a handle
//! retained      mapped               handle       | cuMemSetAccess
//!   | cuMemUnmap                                  ^ cuMemMap
//! unmapped                           handle       | cuMemCreate, if there is no handle
//!   | cuMemRelease, once all blocks are unmapped  ^
//! suspended                                       |
//! ```
//!
//! While there is a handle the contents are there, and no new memory is needed to go back.

use std::alloc::Layout;

use rmm_core::{DevicePtr, Error, check};
use rmm_sys::{CuMemHandle, Driver};

use super::suspended::Suspended;
use super::{NAME, Space, Stuck};
use crate::capability::calls_for;

impl Space {
    /// Suspends blocks. On an error none has lost its contents.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The blocks are allocated here with these layouts; every use of them has completed, and there
    /// is none until they are resumed.
    pub(in super::super) unsafe fn suspend(
        &self,
        blocks: &[(DevicePtr, Layout)],
    ) -> Result<(), Error> {
        let calls = calls_for(None)?;
        for &(start, layout) in blocks {
            let bytes = self.block_size(layout).ok_or_else(|| Error::out_of_range(NAME, "size"))?;
            // SAFETY: the caller's contract.
            unsafe { self.unmap_retained(&calls, start, bytes) }?;
        }
        // From the first that is released on nothing goes back. What the driver refuses to release
        // after that is released when the block is suspended again.
        let mut has_released = false;
        for (start, _) in blocks {
            match self.release_retained(&calls, *start) {
                Err(error) if !has_released => return Err(error),
                released => has_released |= released.is_ok(),
            }
        }
        self.retry_stuck(&calls);
        Ok(())
    }

    /// Unmaps a block and keeps its physical memory.
    ///
    /// # Safety
    /// The conditions of [`suspend`](Self::suspend) hold.
    unsafe fn unmap_retained(
        &self,
        driver: &Driver,
        start: DevicePtr,
        bytes: usize,
    ) -> Result<(), Error> {
        let known = self.state().suspended.get(&start.0).copied();
        let mut block = if let Some(block) = known {
            block
        } else {
            let memory = Some(retain(driver, start)?);
            let block = Suspended { bytes, memory, is_mapped: true, is_resuming: false };
            // Before it is out of use: an export finds it here or there.
            self.state().suspended.insert(start.0, block);
            block
        };
        if block.is_mapped {
            let is_in_use = known.is_none();
            // SAFETY: a whole mapping; the caller's contract says that it is not in use.
            let unmap = || check("cuMemUnmap", unsafe { driver.cuMemUnmap(start, bytes) });
            let unmapped = if is_in_use { self.access.forget_if(start, unmap) } else { unmap() };
            if let Err(error) = unmapped {
                if let (None, Some(memory)) = (known, block.memory) {
                    self.state().suspended.remove(&start.0);
                    self.release(driver, Stuck::Memory(memory));
                }
                return Err(error);
            }
            block.is_mapped = false;
        }
        let mut state = self.state();
        if known.is_none() {
            state.mapped_bytes -= bytes as u64;
        }
        state.suspended.insert(start.0, block);
        Ok(())
    }

    /// Returns the physical memory of a block that is unmapped.
    ///
    /// # Errors
    /// If the driver refuses. The memory stays for the block that is resumed.
    fn release_retained(&self, driver: &Driver, start: DevicePtr) -> Result<(), Error> {
        let retained = self.state().suspended.get_mut(&start.0).and_then(|it| it.memory.take());
        let Some(memory) = retained else { return Ok(()) };
        // SAFETY: created by `cuMemCreate`; the table has this reference no more.
        let released = check("cuMemRelease", unsafe { driver.cuMemRelease(memory) });
        if released.is_err()
            && let Some(block) = self.state().suspended.get_mut(&start.0)
        {
            block.memory = Some(memory);
        }
        released
    }

    /// Resumes blocks. It can be called again after an error.
    ///
    /// # Errors
    /// If there is not enough memory, or the driver refuses.
    pub(in super::super) fn resume(&self, blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        let calls = calls_for(None)?;
        for &(start, _) in blocks {
            // It stays in the table until it is in use again, so that an export finds it.
            let Some(mut block) = self.begin_to_resume(start) else { continue };
            let resumed = self.resume_block(&calls, start, &mut block);
            let mut state = self.state();
            if let Err(error) = resumed {
                state.suspended.insert(start.0, block);
                return Err(error);
            }
            state.suspended.remove(&start.0);
            state.mapped_bytes += block.bytes as u64;
        }
        Ok(())
    }

    /// The block, unless another thread resumes it.
    fn begin_to_resume(&self, start: DevicePtr) -> Option<Suspended> {
        let mut state = self.state();
        let block = state.suspended.get_mut(&start.0).filter(|block| !block.is_resuming)?;
        let before = *block;
        block.is_resuming = true;
        Some(before)
    }

    fn resume_block(
        &self,
        driver: &Driver,
        start: DevicePtr,
        block: &mut Suspended,
    ) -> Result<(), Error> {
        let bytes = block.bytes;
        if !block.is_mapped {
            let memory = match block.memory {
                Some(memory) => memory,
                None => self.create(driver, bytes)?,
            };
            block.memory = Some(memory);
            // SAFETY: all of the memory, to which this block alone holds a handle, at addresses
            // that are reserved and taken by it, and at which nothing is mapped.
            let code = unsafe { driver.cuMemMap(start, bytes, 0, memory, 0) };
            check("cuMemMap", code)?;
            block.is_mapped = true;
        }
        // SAFETY: it is mapped, and not unmapped before `forget`.
        unsafe { self.access.give(driver, start, bytes, 1) }?;
        if let Some(memory) = block.memory.take() {
            // The mapping keeps the physical memory alive.
            self.release(driver, Stuck::Memory(memory));
        }
        Ok(())
    }

    /// Returns what a suspended block holds, whose addresses are not used again. Returns whether
    /// nothing is mapped there any more.
    pub(super) fn discard(&self, driver: &Driver, start: DevicePtr, block: Suspended) -> bool {
        if let Some(memory) = block.memory {
            self.release(driver, Stuck::Memory(memory));
        }
        !block.is_mapped || self.release(driver, Stuck::Mapping(start, block.bytes))
    }
}

/// A reference to the physical memory that is mapped at an address.
fn retain(driver: &Driver, start: DevicePtr) -> Result<CuMemHandle, Error> {
    let mut memory = CuMemHandle(0);
    let address = usize::try_from(start.0)
        .map_err(|_| Error::out_of_range(NAME, "no address of this process"))?;
    let address = std::ptr::without_provenance_mut(address);
    // SAFETY: `memory` may be written to; the driver does not access memory at the address.
    let code = unsafe { driver.cuMemRetainAllocationHandle(&raw mut memory, address) };
    check("cuMemRetainAllocationHandle", code).map(|()| memory)
}
