//! Address lookup: the allocation of an address, and the ranges that an argument may name.
#![forbid(unsafe_code)]

use rmm_sys::{CuDeviceAttribute, CuResult};

use crate::engine::machine;
use crate::engine::state::State;
use crate::model::memory::{Allocation, AllocationKind, Place, Side};
use crate::model::virtual_memory::HOST;

impl State {
    /// The allocation or mapping that contains an address.
    pub(crate) fn allocation_at(&self, address: usize) -> Option<Allocation> {
        let allocation = self.allocations.containing(address);
        allocation.or_else(|| self.mapped_allocation_at(address))
    }

    /// A mapped address belongs to its whole reservation, as the driver reports it.
    fn mapped_allocation_at(&self, address: usize) -> Option<Allocation> {
        let (_, mapped) = self.virtual_memory.mapping_at(address)?;
        let reserved = self.virtual_memory.reservation_of(address)?;
        let (start, bytes) = (reserved.start, reserved.len());
        // Work that names it now may use the mappings that exist now, and none made later.
        let id = self.virtual_memory.last_mapping();
        Some(Allocation {
            id,
            start,
            bytes,
            kind: AllocationKind::Mapped,
            device: if mapped.home == HOST { 0 } else { mapped.home },
            context: if mapped.home == HOST { 0 } else { mapped.home },
        })
    }

    /// The range as a place that work may access.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it does not lie within one live allocation, contiguous mappings, or
    /// pageable host memory where that is allowed; or if `side` excludes the memory.
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
            Some(found)
                if side == Side::Host
                    && found.on_device_only()
                    && !self.virtual_memory.is_on_host(address) =>
            {
                return Err(CuResult::INVALID_VALUE);
            }
            Some(found) if side == Side::DeviceByName && found.is_of_host_pool() => {
                return Err(CuResult::INVALID_VALUE);
            }
            None if address == 0 || for_device && !self.uses_pageable_memory() => {
                return Err(CuResult::INVALID_VALUE);
            }
            // An address that some machine allocates from, but that is not (or no longer)
            // allocated.
            None if machine::is_simulated(address) => return Err(CuResult::INVALID_VALUE),
            None if self.allocations.overlaps(address, bytes) => {
                return Err(CuResult::INVALID_VALUE);
            }
            Some(_) | None => {}
        }
        Ok(Place { address, bytes, allocation })
    }

    /// Whether devices access pageable host memory directly.
    pub(crate) fn uses_pageable_memory(&self) -> bool {
        let attribute = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
        !self.devices.is_empty()
            && self.devices.iter().all(|device| device.attribute(attribute) == Some(1))
    }

    /// An address as traces and reports show it.
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
