//! Virtual memory: reserving addresses, creating physical memory, and mapping it.

use std::ffi::{c_ulonglong, c_void};
use std::ops::Range;

use rmm_sys::{
    CuDeviceAttribute, CuDevicePtr, CuIpcMemHandle, CuMemAccessDesc, CuMemAccessFlags,
    CuMemAllocationProp, CuMemAllocationType, CuMemGranularity, CuMemHandle, CuMemHandleType,
    CuMemLocation, CuMemLocationType, CuResult,
};

use crate::calls::arguments::{address, pointer};
use crate::calls::call::driver_calls;
use crate::engine::session::Session;
use crate::engine::state::State;
use crate::model::handle::{self, HandleKind};
use crate::model::shared_bytes::{self, Contents, SharedBytes};
use crate::model::trace::LeakKind;
use crate::model::virtual_memory::{GRANULARITY, HOST, Physical};

fn is_granular(bytes: usize) -> bool {
    bytes > 0 && bytes.is_multiple_of(GRANULARITY)
}

/// A range of whole granules.
///
/// # Errors
/// `INVALID_VALUE` for any other.
fn granules(start: CuDevicePtr, bytes: usize) -> Result<Range<usize>, CuResult> {
    let start = address(start);
    let end = start.checked_add(bytes).ok_or(CuResult::INVALID_VALUE)?;
    if is_granular(start) && is_granular(bytes) {
        Ok(start..end)
    } else {
        Err(CuResult::INVALID_VALUE)
    }
}

impl State {
    fn has_virtual_memory(&self, device: usize) -> bool {
        let attribute = CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        self.devices[device].attribute(attribute) == Some(1)
    }

    /// Whether there is virtual memory of the host on its only node, number 0.
    fn has_host_virtual_memory(&self) -> bool {
        let attribute = CuDeviceAttribute::HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        self.devices.first().is_some_and(|device| device.attribute(attribute) == Some(1))
    }

    /// The device of physical memory with these properties, or [`HOST`].
    fn physical_home(&self, properties: &CuMemAllocationProp) -> Result<usize, CuResult> {
        match (properties.location.kind, properties.kind) {
            (CuMemLocationType::INVALID, _) | (_, CuMemAllocationType::INVALID) => {
                return Err(CuResult::INVALID_VALUE);
            }
            (CuMemLocationType::DEVICE, CuMemAllocationType::PINNED) => {}
            (CuMemLocationType::HOST_NUMA, CuMemAllocationType::PINNED) => {
                let file = CuMemHandleType::POSIX_FILE_DESCRIPTOR.0;
                let is_plain = properties.usage == 0
                    && properties.gpu_direct_rdma_capable == 0
                    && properties.requested_handle_types.0 & !file == 0;
                return match (properties.location.id, self.has_host_virtual_memory() && is_plain) {
                    (0, true) => Ok(HOST),
                    (_, true) => Err(CuResult::INVALID_VALUE),
                    (_, false) => Err(CuResult::NOT_SUPPORTED),
                };
            }
            _ => return Err(CuResult::NOT_SUPPORTED),
        }
        let device = self.device(properties.location.id)?;
        let has = |attribute| self.devices[device].attribute(attribute) == Some(1);
        let known = [
            (
                CuMemHandleType::POSIX_FILE_DESCRIPTOR,
                CuDeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
            ),
            (CuMemHandleType::FABRIC, CuDeviceAttribute::HANDLE_TYPE_FABRIC_SUPPORTED),
        ];
        let supported = known.into_iter().filter(|&(_, attribute)| has(attribute));
        let supported = supported.fold(0, |types, (kind, _)| types | kind.0);
        let is_exportable = properties.requested_handle_types.0 & !supported == 0;
        let is_reachable = properties.gpu_direct_rdma_capable == 0
            || has(CuDeviceAttribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
        let is_known = properties.usage == 0 && self.has_virtual_memory(device);
        if is_known && is_exportable && is_reachable {
            Ok(device)
        } else {
            Err(CuResult::NOT_SUPPORTED)
        }
    }

    /// The device that an access right is for, or [`HOST`].
    fn accessor(&self, location: CuMemLocation) -> Result<usize, CuResult> {
        match location.kind {
            CuMemLocationType::HOST_NUMA if location.id == 0 => Ok(HOST),
            CuMemLocationType::DEVICE => self.device(location.id),
            _ => Err(CuResult::INVALID_VALUE),
        }
    }

    fn physical_slot(&self, handle: CuMemHandle) -> Option<usize> {
        handle::decode(usize::try_from(handle.0).ok()?, self.machine, HandleKind::Physical)
    }

    /// The key of the physical memory that a handle names, while the program holds a reference to
    /// it.
    pub(crate) fn physical_of(&self, handle: CuMemHandle) -> Result<u64, CuResult> {
        let key = self.physical_slot(handle).and_then(|slot| self.virtual_memory.slots.get(slot));
        let held = |key: &u64| {
            self.virtual_memory.physical.get(key).is_some_and(|physical| physical.references > 0)
        };
        key.filter(held).ok_or(CuResult::INVALID_VALUE)
    }

    pub(crate) fn physical_handle(&self, slot: usize) -> CuMemHandle {
        CuMemHandle(handle::encode(self.machine, HandleKind::Physical, slot).addr() as c_ulonglong)
    }
}

impl Session<'_> {
    fn create_physical(
        &mut self,
        home: usize,
        bytes: usize,
        properties: &CuMemAllocationProp,
    ) -> Result<CuMemHandle, CuResult> {
        let (start, shared) = if home == HOST {
            let file = shared_bytes::anonymous()?;
            Contents { home, bytes, has_rdma: false }.write(&file)?;
            let start = self.host.allocate_shared(&file, bytes)?;
            (start, Some(SharedBytes::new((file, None))?))
        } else {
            (self.take_from_device(home, bytes)?, None)
        };
        self.check_allocated(start, bytes, None);
        Ok(self.insert_physical(Physical {
            home,
            start,
            bytes,
            references: 1,
            mappings: 0,
            handle_types: properties.requested_handle_types,
            has_rdma: properties.gpu_direct_rdma_capable != 0,
            shared,
            fabric: None,
        }))
    }

    /// Adds physical memory to which the program holds one reference.
    pub(crate) fn insert_physical(&mut self, physical: Physical) -> CuMemHandle {
        let key = self.next_key();
        self.virtual_memory.physical.insert(key, physical);
        self.note_origin(LeakKind::PhysicalMemory, key);
        let slot = self.virtual_memory.slots.insert(key);
        self.physical_handle(slot)
    }

    fn unmap(&mut self, range: &Range<usize>) -> Result<(), CuResult> {
        let reserved = self.virtual_memory.reservation_of(range.start);
        let reserved = reserved.filter(|reserved| range.end <= reserved.end);
        let reserved = reserved.ok_or(CuResult::INVALID_VALUE)?;
        for mapped in self.virtual_memory.wholly_in(range)? {
            self.check_unmapped(reserved.start, &mapped);
            if let Some(key) = self.virtual_memory.unmap(mapped.start) {
                self.return_physical(key);
            }
        }
        Ok(())
    }
}

driver_calls! {
    fn cuMemGetAllocationGranularity(granularity: *mut usize, properties: *const CuMemAllocationProp, option: CuMemGranularity) by [] |session| {
        session.physical_home(&properties.get(0)?)?;
        match option {
            CuMemGranularity::MINIMUM | CuMemGranularity::RECOMMENDED => granularity.put(GRANULARITY),
            _ => Err(CuResult::INVALID_VALUE),
        }
    }

    fn cuMemAddressReserve(result: *mut CuDevicePtr, bytes: usize, alignment: usize, hint: CuDevicePtr, flags: c_ulonglong) by [] |session| {
        result.required()?;
        if !(0..session.devices.len()).any(|device| session.has_virtual_memory(device)) {
            return Err(CuResult::NOT_SUPPORTED);
        }
        if flags != 0 || !is_granular(bytes) || !(alignment == 0 || alignment.is_power_of_two()) {
            return Err(CuResult::INVALID_VALUE);
        }
        session.open_addresses()?;
        let start = session.virtual_memory.reserve(bytes, alignment, address(hint));
        let start = start.ok_or(CuResult::OUT_OF_MEMORY)?;
        session.note_origin(LeakKind::AddressRange, start as u64);
        session.trace_address(start);
        result.put(pointer(start))
    }

    fn cuMemAddressFree(start: CuDevicePtr, bytes: usize) by [start] |session| {
        let start = address(start);
        let Some(reserved) = session.virtual_memory.reserved_at(start) else {
            session.check_bad_free("cuMemAddressFree", start);
            return Err(CuResult::INVALID_VALUE);
        };
        let range = start..start + reserved;
        if bytes != reserved || session.virtual_memory.over(&range).next().is_some() {
            return Err(CuResult::INVALID_VALUE);
        }
        session.trace_address(start);
        session.check_unreserved(&range);
        session.virtual_memory.end_reservation(start);
        Ok(())
    }

    fn cuMemCreate(result: *mut CuMemHandle, bytes: usize, properties: *const CuMemAllocationProp, flags: c_ulonglong) by [] |session| {
        result.required()?;
        let properties = properties.get(0)?;
        let device = session.physical_home(&properties)?;
        if flags != 0 || !is_granular(bytes) {
            return Err(CuResult::INVALID_VALUE);
        }
        if properties.requested_handle_types.0 & CuMemHandleType::FABRIC.0 != 0 && !session.virtual_memory.has_fabric {
            // Seen on an H100 that is in no NVLink domain, although its attribute is 1.
            return Err(CuResult::NOT_PERMITTED);
        }
        result.put(session.create_physical(device, bytes, &properties)?)
    }

    fn cuMemRelease(handle: CuMemHandle) by [handle] |session| {
        let Ok(key) = session.physical_of(handle) else {
            let was_one = session.physical_slot(handle).is_some();
            session.check_bad_release(was_one);
            return Err(CuResult::INVALID_VALUE);
        };
        let state = &mut **session;
        let physical = state.virtual_memory.physical.get_mut(&key).ok_or(CuResult::INVALID_VALUE)?;
        physical.references -= 1;
        // Memory that is mapped stays until it is unmapped.
        if physical.references == 0 && physical.mappings == 0 {
            let backing = physical.backing();
            state.check_released(&backing);
            state.return_physical(key);
        }
        Ok(())
    }

    fn cuMemRetainAllocationHandle(result: *mut CuMemHandle, at: *mut c_void) by [at] |session| {
        result.required()?;
        let state = &mut **session;
        let (_, mapped) = state.virtual_memory.mapping_at(at.address()).ok_or(CuResult::INVALID_VALUE)?;
        let key = mapped.physical;
        let slot = state.virtual_memory.slots.slot_of(key).ok_or(CuResult::INVALID_VALUE)?;
        let physical = state.virtual_memory.physical.get_mut(&key).ok_or(CuResult::INVALID_VALUE)?;
        physical.references += 1;
        result.put(state.physical_handle(slot))
    }

    fn cuMemMap(start: CuDevicePtr, bytes: usize, offset: usize, handle: CuMemHandle, flags: c_ulonglong) by [start, handle] |session| {
        let range = address(start)..address(start).checked_add(bytes).ok_or(CuResult::INVALID_VALUE)?;
        let key = session.physical_of(handle)?;
        let state = &mut **session;
        if flags != 0
            || bytes == 0
            || !range.start.is_multiple_of(GRANULARITY)
            || !offset.is_multiple_of(GRANULARITY)
            || !state.virtual_memory.is_reserved(&range)
            || state.virtual_memory.over(&range).next().is_some()
        {
            return Err(CuResult::INVALID_VALUE);
        }
        let whole = state.virtual_memory.physical.get(&key).map_or(0, |physical| physical.bytes);
        // Drivers refuse to map a part too, although `cuMemMap` has an offset, and sizes that are
        // larger or no multiple of the granularity (seen on an H100 and an H200).
        if offset != 0 || bytes != whole {
            return Err(CuResult::NOT_SUPPORTED);
        }
        state.check_mapped(&range);
        state.virtual_memory.map(range.start, key);
        session.note_origin(LeakKind::Mapping, range.start as u64);
        session.trace_address(range.start);
        Ok(())
    }

    fn cuMemUnmap(start: CuDevicePtr, bytes: usize) by [start] |session| {
        let range = granules(start, bytes)?;
        session.trace_address(range.start);
        session.unmap(&range)
    }

    fn cuMemSetAccess(start: CuDevicePtr, bytes: usize, access: *const CuMemAccessDesc, count: usize) by [start] |session| {
        let range = granules(start, bytes)?;
        let state = &mut **session;
        let mapped = state.virtual_memory.wholly_in(&range)?;
        if count == 0 || !state.virtual_memory.is_reserved(&range) || state.virtual_memory.first_gap(&range).is_some() {
            return Err(CuResult::INVALID_VALUE);
        }
        let mut changes = Vec::new();
        for index in 0..count {
            let CuMemAccessDesc { location, flags } = access.get(index)?;
            let known = [CuMemAccessFlags::NONE, CuMemAccessFlags::READ, CuMemAccessFlags::READ_WRITE];
            if !known.contains(&flags) {
                return Err(CuResult::INVALID_VALUE);
            }
            let accessor = state.accessor(location)?;
            // The host accesses only its own memory by addresses of the device.
            if accessor == HOST && mapped.iter().any(|it| !state.virtual_memory.is_on_host(it.start)) {
                return Err(CuResult::INVALID_VALUE);
            }
            changes.push((accessor, flags));
        }
        for (device, flags) in changes {
            for range in &mapped {
                let before = state.virtual_memory.set_access(range.start, device, flags);
                let is_shown = |flags| flags != CuMemAccessFlags::NONE;
                if device == HOST && is_shown(before) != is_shown(flags) {
                    state.virtual_memory.show(range.start, is_shown(flags))?;
                }
                if before != flags {
                    state.check_access_change(range, device, flags);
                }
            }
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: *mut c_ulonglong, location: *const CuMemLocation, at: CuDevicePtr) by [at] |session| {
        let device = session.accessor(location.get(0)?)?;
        let (_, mapped) = session.virtual_memory.mapping_at(address(at)).ok_or(CuResult::INVALID_VALUE)?;
        flags.put(c_ulonglong::from(mapped.access_of(device).0))
    }

    // Mapped memory has no legacy IPC handle, and of other memory none is made here.
    fn cuIpcGetMemHandle(result: *mut CuIpcMemHandle, at: CuDevicePtr) by [at] |session| {
        result.required()?;
        let is_mapped = session.virtual_memory.mapping_at(address(at)).is_some();
        Err(if is_mapped { CuResult::INVALID_VALUE } else { CuResult::NOT_SUPPORTED })
    }
}
