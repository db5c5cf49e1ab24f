//! Which devices may access the mapped blocks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use rmm_core::{Device, DevicePtr, Error, check, fork};
use rmm_sys::{CuDevice, CuMemAccessDesc, CuMemLocation, CuMemLocationType, Driver};

use crate::capability::calls_for;

/// The devices with access to a resource's memory, and the blocks to which they have it. Lock
/// order: leaf; the driver is called with the lock held, so that no block lacks a device.
pub(in super::super) struct Access(Mutex<AccessState>);

struct AccessState {
    devices: Vec<CuMemAccessDesc>,
    /// The blocks in use, by address, and their sizes in bytes.
    ///
    /// # Invariant
    /// Each is mapped: it is removed before it is unmapped.
    mapped: BTreeMap<u64, usize>,
}

impl Access {
    pub(super) fn new(devices: Vec<CuMemAccessDesc>) -> Self {
        Self(Mutex::new(AccessState { devices, mapped: BTreeMap::new() }))
    }

    /// Locks the state, which is consistent between two calls.
    fn state(&self) -> MutexGuard<'_, AccessState> {
        fork::lock(&self.0)
    }

    /// Whether a device has access.
    pub(in super::super) fn includes(&self, device: Device) -> bool {
        // A NUMA node of the host has a number, too.
        let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: device.as_raw().0 };
        self.state().devices.iter().any(|access| access.location == location)
    }

    /// The devices that have access.
    pub(in super::super) fn devices(&self) -> Vec<CuDevice> {
        let state = self.state();
        let of_device =
            |access: &&CuMemAccessDesc| access.location.kind == CuMemLocationType::DEVICE;
        state.devices.iter().filter(of_device).map(|access| CuDevice(access.location.id)).collect()
    }

    /// The block in use that contains an address.
    pub(super) fn block_at(&self, address: u64) -> Option<Range<u64>> {
        let state = self.state();
        let (&start, &bytes) = state.mapped.range(..=address).next_back()?;
        let block = start..start + bytes as u64;
        block.contains(&address).then_some(block)
    }

    /// Calls `act` if the block at this address is in use; it is not unmapped meanwhile.
    pub(super) fn while_mapped<R>(&self, start: u64, act: impl FnOnce() -> R) -> Option<R> {
        let state = self.state();
        state.mapped.contains_key(&start).then(act)
    }

    /// Gives the devices access to adjacent blocks of one size, by one call of the driver.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// Each block is mapped, and stays so until it is [forgotten](Self::forget).
    pub(super) unsafe fn give(
        &self,
        driver: &Driver,
        start: DevicePtr,
        bytes: usize,
        blocks: usize,
    ) -> Result<(), Error> {
        let mut state = self.state();
        // SAFETY: the caller's contract; the descriptions may be read.
        unsafe { set_access(driver, start, bytes * blocks, &state.devices) }?;
        let starts = (0..blocks).map(|block| start.0 + (block * bytes) as u64);
        state.mapped.extend(starts.map(|start| (start, bytes)));
        Ok(())
    }

    /// Forgets a block that is about to be unmapped.
    pub(super) fn forget(&self, start: DevicePtr) {
        self.state().mapped.remove(&start.0);
    }

    /// Forgets a block if `unmap` succeeds, which unmaps it.
    ///
    /// # Errors
    /// That of `unmap`.
    pub(super) fn forget_if(
        &self,
        start: DevicePtr,
        unmap: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut state = self.state();
        unmap()?;
        state.mapped.remove(&start.0);
        Ok(())
    }

    /// Gives one more device access to all blocks, and to those that are mapped later.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(in super::super) fn grant(&self, access: CuMemAccessDesc) -> Result<(), Error> {
        let calls = calls_for(None)?;
        let mut state = self.state();
        // Another thread may have granted it meanwhile.
        if state.devices.iter().any(|known| known.location == access.location) {
            return Ok(());
        }
        for (&start, &bytes) in &state.mapped {
            // SAFETY: it is mapped, by the invariant, and stays so while the lock is held.
            unsafe { set_access(&calls, DevicePtr(start), bytes, &[access]) }?;
        }
        state.devices.push(access);
        Ok(())
    }
}

/// # Safety
/// The range is one or more whole mappings.
unsafe fn set_access(
    driver: &Driver,
    start: DevicePtr,
    bytes: usize,
    access: &[CuMemAccessDesc],
) -> Result<(), Error> {
    // SAFETY: the caller's contract; the descriptions may be read.
    let code = unsafe { driver.cuMemSetAccess(start, bytes, access.as_ptr(), access.len()) };
    check("cuMemSetAccess", code)
}
