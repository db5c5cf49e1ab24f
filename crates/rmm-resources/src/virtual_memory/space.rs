//! Reserved address ranges, and the physical memory that is mapped there.

mod access;
mod blocks;
mod pages;
mod suspend;
mod suspended;

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmm_core::{Device, DevicePtr, Error, RelaxedCapture, StreamRef, check, driver_for_drop, fork};
use rmm_sys::{
    CuMemAccessDesc, CuMemAllocationProp, CuMemHandle, CuMemHandleType, CuMemLocation,
    CuMemLocationType, Driver,
};

use self::access::Access;
use self::suspended::Suspended;
use super::addresses::Addresses;
use crate::ExportHandleTypes;
use crate::capability::{calls_for, wrong_device};

/// The resource's name in errors and logs.
pub(super) const NAME: &str = "virtual";

/// What a [`VirtualMemoryResource`](crate::VirtualMemoryResource) holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct VirtualMemoryStatistics {
    /// Bytes of addresses that are reserved.
    pub reserved_bytes: u64,
    /// Bytes of physical memory that is mapped there.
    pub mapped_bytes: u64,
    /// Blocks that are allocated.
    pub blocks: u64,
    /// Bytes of those of them that are suspended: they have addresses and no physical memory.
    pub suspended_bytes: u64,
}

/// The physical memory that a resource makes.
#[derive(Clone, Copy)]
pub(super) struct PhysicalKind {
    /// The device whose memory it is, or that was current when the resource was made.
    pub(super) device: Device,
    pub(super) location: CuMemLocation,
    /// Whether RDMA can access it.
    pub(super) rdma: bool,
    /// The types of handles that it can be exported as.
    pub(super) handles: ExportHandleTypes,
}

impl PhysicalKind {
    pub(super) fn properties(self) -> CuMemAllocationProp {
        CuMemAllocationProp {
            requested_handle_types: CuMemHandleType(self.handles.bits()),
            gpu_direct_rdma_capable: self.rdma.into(),
            ..CuMemAllocationProp::pinned(self.location)
        }
    }
}

/// The address ranges of a resource and what is mapped there. Dropping it unmaps and frees both.
pub(crate) struct Space {
    kind: PhysicalKind,
    pub(super) access: Access,
    pub(super) page: usize,
    /// Bytes of addresses to reserve at a time.
    step: usize,
    /// Total memory of the device, in bytes.
    pub(super) memory: u64,
    state: Mutex<SpaceState>,
}

#[derive(Default)]
struct SpaceState {
    addresses: Addresses,
    /// The reserved ranges: start and length.
    reserved: Vec<(DevicePtr, usize)>,
    mapped_bytes: u64,
    blocks: u64,
    /// The blocks that are suspended, by their addresses.
    suspended: BTreeMap<u64, Suspended>,
    /// What the driver refused to unmap or release. `Drop` tries again, and later calls that return
    /// memory do what is to be released.
    stuck: Vec<Stuck>,
}

#[derive(Clone, Copy)]
enum Stuck {
    Mapping(DevicePtr, usize),
    Memory(CuMemHandle),
}

impl Stuck {
    /// Unmaps or releases it. Returns whether the driver did.
    fn release(self, driver: &Driver) -> bool {
        match self {
            // SAFETY: a whole mapping that is not in use: its block was freed, or never returned.
            Self::Mapping(start, bytes) => unsafe { driver.cuMemUnmap(start, bytes) },
            // SAFETY: created by `cuMemCreate`, and its handle is used nowhere else.
            Self::Memory(memory) => unsafe { driver.cuMemRelease(memory) },
        }
        .is_success()
    }
}

/// The address that a block is to have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Placement {
    Anywhere,
    At(DevicePtr),
}

impl Space {
    pub(super) fn new(
        kind: PhysicalKind,
        access: Vec<CuMemAccessDesc>,
        page: usize,
        step: usize,
        memory: u64,
    ) -> Self {
        Self { kind, access: Access::new(access), page, step, memory, state: Mutex::default() }
    }

    /// Fails if the driver makes no memory of this kind.
    pub(super) fn check_kind(&self) -> Result<(), Error> {
        self.kind.probe(self.page)
    }

    /// Locks the state. It is consistent between two calls, so the poison of a thread that panicked
    /// with the lock held is ignored.
    fn state(&self) -> MutexGuard<'_, SpaceState> {
        fork::lock(&self.state)
    }

    pub(super) fn statistics(&self) -> VirtualMemoryStatistics {
        let state = self.state();
        VirtualMemoryStatistics {
            reserved_bytes: state.reserved.iter().map(|&(_, bytes)| bytes as u64).sum(),
            mapped_bytes: state.mapped_bytes,
            blocks: state.blocks,
            suspended_bytes: state.suspended.values().map(Suspended::bytes).sum(),
        }
    }

    /// Whether it is memory of the host.
    pub(super) fn is_on_host(&self) -> bool {
        self.kind.location.kind != CuMemLocationType::DEVICE
    }

    /// The device whose memory it is, or that was current when the resource was made.
    pub(super) fn device(&self) -> Device {
        self.kind.device
    }

    /// The size of a block for this layout; `None` if it exceeds the device's memory.
    fn block_size(&self, layout: Layout) -> Option<usize> {
        layout
            .size()
            .checked_next_multiple_of(self.page)
            .filter(|&bytes| bytes as u64 <= self.memory)
    }

    /// Fails if the stream's device has no access.
    pub(super) fn check_device(&self, stream: StreamRef<'_>) -> Result<(), Error> {
        let device = stream.device()?;
        if self.access.includes(device) {
            return Ok(());
        }
        Err(wrong_device(NAME, device, "build it with `accessible_from`, or call `grant_access`"))
    }

    /// Allocates a block: takes a range of addresses and maps new physical memory there.
    pub(super) fn allocate(
        &self,
        placement: Placement,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        let none = || Error::out_of_memory(NAME);
        let bytes = self.block_size(layout).ok_or_else(none)?;
        let calls = calls_for(None)?;
        let driver = &*calls;
        let start = match placement {
            Placement::At(start) => {
                if !self.state().addresses.take_at(start.0, bytes as u64) {
                    let message = "these addresses are in use, or not of this resource";
                    return Err(Error::out_of_range(NAME, message));
                }
                start
            }
            Placement::Anywhere => self.take_addresses(driver, bytes)?,
        };
        match self.map_memory(driver, start, bytes) {
            Ok(()) => {
                let mut state = self.state();
                state.mapped_bytes += bytes as u64;
                state.blocks += 1;
                Ok(start)
            }
            Err((error, is_unmapped)) => {
                if is_unmapped {
                    self.state().addresses.release(start.0, bytes as u64);
                }
                Err(error)
            }
        }
    }

    /// Takes addresses for a block, and reserves more if none are free.
    fn take_addresses(&self, driver: &Driver, bytes: usize) -> Result<DevicePtr, Error> {
        let mut state = self.state();
        if let Some(start) = state.addresses.take(bytes as u64) {
            return Ok(DevicePtr(start));
        }
        // With the lock held, so that two threads do not both reserve. It happens once or twice per
        // process.
        let step = self.step.checked_next_multiple_of(self.page).unwrap_or(bytes).max(bytes);
        let mut start = DevicePtr::NULL;
        // SAFETY: `start` may be written to.
        let code = unsafe {
            driver.cuMemAddressReserve(&raw mut start, step, self.page, DevicePtr::NULL, 0)
        };
        check("cuMemAddressReserve", code)?;
        state.reserved.push((start, step));
        state.addresses.add(start.0, step as u64);
        let taken = state.addresses.take(bytes as u64);
        Ok(DevicePtr(taken.expect("as many addresses were added just now, in one piece")))
    }

    /// Makes physical memory.
    fn create(&self, driver: &Driver, bytes: usize) -> Result<CuMemHandle, Error> {
        let properties = self.kind.properties();
        let mut memory = CuMemHandle(0);
        // SAFETY: `memory` may be written to, and the properties read.
        let code = unsafe { driver.cuMemCreate(&raw mut memory, bytes, &raw const properties, 0) };
        check("cuMemCreate", code).map(|()| memory)
    }

    /// Maps new physical memory at a range that was taken, without access to it.
    fn map_new(&self, driver: &Driver, start: DevicePtr, bytes: usize) -> Result<(), Error> {
        let memory = self.create(driver, bytes)?;
        // SAFETY: all of the memory, which was made just now, at addresses that are reserved and
        // taken by this block alone.
        let code = unsafe { driver.cuMemMap(start, bytes, 0, memory, 0) };
        let mapped = check("cuMemMap", code);
        // The mapping keeps the physical memory alive, so the handle can be released.
        self.release(driver, Stuck::Memory(memory));
        mapped
    }

    /// Maps new physical memory at a range that was taken. The error says whether the range is
    /// unmapped.
    fn map_memory(
        &self,
        driver: &Driver,
        start: DevicePtr,
        bytes: usize,
    ) -> Result<(), (Error, bool)> {
        self.map_new(driver, start, bytes).map_err(|error| (error, true))?;
        // SAFETY: mapped just now, and not unmapped before `forget`.
        unsafe { self.access.give(driver, start, bytes, 1) }
            .map_err(|error| (error, self.release(driver, Stuck::Mapping(start, bytes))))
    }

    /// Releases the physical memory that the driver has refused to release before.
    pub(super) fn retry_stuck(&self, driver: &Driver) {
        let is_memory = |stuck: &mut Stuck| matches!(stuck, Stuck::Memory(_));
        let memory: Vec<Stuck> = self.state().stuck.extract_if(.., is_memory).collect();
        for what in memory {
            self.release(driver, what);
        }
    }

    /// Unmaps or releases `what`, or keeps it for a later call. Returns whether it was released.
    fn release(&self, driver: &Driver, what: Stuck) -> bool {
        let is_released = what.release(driver);
        if !is_released {
            self.state().stuck.push(what);
        }
        is_released
    }

    /// Unmaps a block and releases its memory to the device. The addresses stay reserved.
    ///
    /// # Safety
    /// The block was allocated here with this layout and is not freed already; every use of it has
    /// completed.
    pub(super) unsafe fn free(&self, driver: &Driver, start: DevicePtr, layout: Layout) {
        let Some(bytes) = self.block_size(layout) else {
            debug_assert!(false, "no block of this layout was ever allocated: {layout:?}");
            return;
        };
        self.retry_stuck(driver);
        let suspended = self.state().suspended.remove(&start.0);
        let was_suspended = suspended.is_some();
        let is_unmapped = if let Some(suspended) = suspended {
            self.discard(driver, start, suspended)
        } else {
            self.access.forget(start);
            self.release(driver, Stuck::Mapping(start, bytes))
        };
        let mut state = self.state();
        state.blocks -= 1;
        if was_suspended {
            if is_unmapped {
                state.addresses.release(start.0, bytes as u64);
            }
        } else if is_unmapped {
            state.mapped_bytes -= bytes as u64;
            state.addresses.release(start.0, bytes as u64);
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let Some(driver) = driver_for_drop() else { return };
        let _relaxed = RelaxedCapture::enter();
        let suspended = std::mem::take(&mut self.state().suspended);
        let unfreed: Vec<u64> = suspended.keys().copied().collect();
        for (start, suspended) in suspended {
            self.discard(driver, DevicePtr(start), suspended);
        }
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for stuck in state.stuck.drain(..) {
            // This is the last attempt.
            let _ignored = stuck.release(driver);
        }
        for (start, bytes) in state.reserved.drain(..) {
            // As if it were mapped: a block that was never freed keeps its addresses.
            let range = start.0..start.0 + bytes as u64;
            if unfreed.iter().any(|start| range.contains(start)) {
                continue;
            }
            // SAFETY: reserved by `take_addresses`. The driver refuses if a block was never freed;
            // then the range stays reserved.
            let _ignored = unsafe { driver.cuMemAddressFree(start, bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use rmm_sys::{CuMemLocation, CuMemLocationType};

    use super::{Device, ExportHandleTypes, PhysicalKind};

    #[test]
    fn options_reach_the_driver() {
        let _machine = rmm_sim::enter();
        let device = Device::new(0).expect("there is one");
        let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: 3 };
        let file = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
        let both = file | ExportHandleTypes::FABRIC;
        for (rdma, handles) in [(false, ExportHandleTypes::empty()), (true, file), (false, both)] {
            let asked = PhysicalKind { device, location, rdma, handles }.properties();
            assert_eq!(asked.location.id, 3);
            assert_eq!(asked.gpu_direct_rdma_capable == 1, rdma);
            assert_eq!(asked.requested_handle_types.0, handles.bits());
        }
    }
}
