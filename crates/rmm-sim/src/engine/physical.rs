//! Returning physical memory to its device, and reserving the addresses to map it at.
#![forbid(unsafe_code)]

use std::ops::Range;

use rmm_sys::CuResult;

use crate::engine::machine;
use crate::engine::state::State;

impl State {
    /// Unmaps and releases all physical memory of a device, regardless of references.
    pub(crate) fn end_virtual_memory(&mut self, device: usize, by: &'static str) {
        let physical = &self.virtual_memory.physical;
        let is_of_device =
            |key: u64| physical.get(&key).is_some_and(|physical| physical.home == device);
        let mappings = self.virtual_memory.mappings();
        let mapped: Vec<Range<usize>> = mappings
            .filter(|(_, mapped)| is_of_device(mapped.physical))
            .map(|(start, mapped)| start..start + mapped.bytes)
            .collect();
        let keys: Vec<u64> = physical.keys().copied().filter(|&key| is_of_device(key)).collect();
        for range in mapped {
            self.check_ended(&range, by);
            self.virtual_memory.unmap(range.start);
        }
        for key in keys {
            self.return_physical(key);
        }
    }

    /// Returns physical memory without references and mappings to its device.
    pub(crate) fn return_physical(&mut self, key: u64) {
        let physical = self.virtual_memory.physical.remove(&key);
        let physical = physical.expect("physical memory is returned once");
        if let Some(slot) = self.virtual_memory.slots.slot_of(key) {
            self.virtual_memory.slots.remove(slot);
        }
        self.forget_uses(&physical.backing());
        let (start, bytes) = (physical.start, physical.bytes);
        let Some(device) = self.devices.get_mut(physical.home) else {
            return self.host.deallocate_shared(start, bytes);
        };
        match physical.shared {
            Some(shared) => device.end_shared(start, bytes, shared),
            None => device.deallocate(start, bytes),
        }
    }

    /// Ensures that the address range of virtual memory exists.
    pub(crate) fn open_addresses(&mut self) -> Result<(), CuResult> {
        let totals = self.devices.iter().map(|device| device.total);
        let memory = totals.fold(0, usize::saturating_add);
        if let Some(range) = self.virtual_memory.open(memory)? {
            machine::register_range(self.machine, range);
        }
        Ok(())
    }
}
