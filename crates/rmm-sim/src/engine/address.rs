//! Addresses: the allocation that one lies in, and the ranges that an argument may name.
#![forbid(unsafe_code)]

use rmm_sys::{CuDeviceAttribute, CuResult};

use crate::engine::machine;
use crate::engine::state::State;
use crate::model::memory::{Allocation, AllocationKind, Place, Side};

impl State {
    /// What an address lies in.
    pub(crate) fn allocation_at(&self, address: usize) -> Option<Allocation> {
        let allocation = self.allocations.containing(address);
        allocation.or_else(|| self.mapped_allocation_at(address))
    }

    /// What a mapped address is a part of: all of its reservation, as the driver reports it.
    fn mapped_allocation_at(&self, address: usize) -> Option<Allocation> {
        let (_, mapped) = self.virtual_memory.mapping_at(address)?;
        let reserved = self.virtual_memory.reservation_of(address)?;
        let (start, bytes) = (reserved.start, reserved.len());
        // Work that names it now may use the mappings that exist now, and none made later.
        let id = self.virtual_memory.last_mapping();
        Some(Allocation { id, start, bytes, kind: AllocationKind::Mapped, device: mapped.device })
    }

    /// The range as a place that work may use.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it does not lie within one live allocation, or in mappings without a gap,
    /// or, on the host's side and where devices use pageable memory, in ordinary memory; or if it
    /// is memory that the side may not name.
    pub(crate) fn place(
        &self,
        address: usize,
        bytes: usize,
        side: Side,
    ) -> Result<Place, CuResult> {
        let allocation = self.allocation_at(address);
        let for_device = matches!(side, Side::Device | Side::DeviceByName);
        match allocation {
            Some(found) if bytes > found.bytes - (address - found.start) => {
                return Err(CuResult::INVALID_VALUE);
            }
            Some(found)
                if found.kind == AllocationKind::Mapped
                    && self.virtual_memory.first_gap(&(address..address + bytes)).is_some() =>
            {
                return Err(CuResult::INVALID_VALUE);
            }
            Some(found) if side == Side::Host && found.on_device_only() => {
                return Err(CuResult::INVALID_VALUE);
            }
            Some(found) if side == Side::DeviceByName && found.is_of_host_pool() => {
                return Err(CuResult::INVALID_VALUE);
            }
            None if address == 0 || for_device && !self.uses_pageable_memory() => {
                return Err(CuResult::INVALID_VALUE);
            }
            // Addresses that some machine hands out, but that are not (or no longer) allocated.
            None if machine::is_simulated(address) => return Err(CuResult::INVALID_VALUE),
            None if self.allocations.overlaps(address, bytes) => {
                return Err(CuResult::INVALID_VALUE);
            }
            Some(_) | None => {}
        }
        Ok(Place { address, bytes, allocation })
    }

    /// Whether ordinary memory of the host serves devices as it is.
    pub(crate) fn uses_pageable_memory(&self) -> bool {
        let attribute = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
        !self.devices.is_empty()
            && self.devices.iter().all(|device| device.attribute(attribute) == Some(1))
    }

    /// An address as traces tell it.
    pub(crate) fn describe(&self, address: usize) -> String {
        for device in &self.devices {
            if let Some(offset) = device.relative(address) {
                return format!("d{}+{offset:#x}", device.ordinal);
            }
        }
        if let Some(offset) = self.virtual_memory.relative(address) {
            return format!("v+{offset:#x}");
        }
        match self.host.relative(address) {
            Some(offset) => format!("h+{offset:#x}"),
            None => String::from("the host's memory"),
        }
    }
}
