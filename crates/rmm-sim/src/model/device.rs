//! A simulated device: its attributes, its memory and how that memory is counted.
//!
//! The accounting is a simple model of a driver's. Memory is taken in units of 2 MiB: an allocation
//! of 1 MiB or more is rounded up to whole units; smaller ones are rounded up to 512 bytes and
//! share units. `cuMemGetInfo_v2` returns the bytes of free units. Placement is address-ordered
//! first fit in an address range four times the device's memory, so that memory runs out before
//! addresses do.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::sync::Arc;

use rmm_sys::{CuDeviceAttribute, CuResult};

use crate::model::free_ranges::FreeRanges;
use crate::model::ledger::Ledger;
use crate::model::mapping::Mapping;
use crate::model::shared_bytes::{self, Contents, Place, SharedBytes};

/// The unit in which device memory is taken.
pub(crate) const UNIT: usize = 2 << 20;
/// The size from which an allocation has units of its own.
const LARGE: usize = 1 << 20;
/// The alignment of every allocation.
pub(crate) const ALIGNMENT: usize = 512;

#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) ordinal: usize,
    pub(crate) name: String,
    pub(crate) total: usize,
    free: usize,
    /// The addresses that programs see, which fault when the host touches them.
    visible: Mapping,
    /// The bytes, which simulated work reads and writes instead.
    shadow: Mapping,
    units: FreeRanges,
    small: FreeRanges,
    /// Who else uses the memory, if other processes do.
    pub(crate) ledger: Option<Arc<Ledger>>,
    attributes: BTreeMap<CuDeviceAttribute, i32>,
    /// How often the primary context is retained.
    pub(crate) retained: u32,
    /// The code that every call in a context of the device returns after a kernel failed.
    pub(crate) failed: Option<CuResult>,
    /// Devices whose memory its contexts may use.
    pub(crate) peers: BTreeSet<usize>,
    pub(crate) default_pool: u64,
    pub(crate) current_pool: u64,
    /// The default pool of managed memory.
    pub(crate) managed_pool: u64,
}

impl Device {
    pub(crate) fn new(
        ordinal: usize,
        name: String,
        total: usize,
        attributes: BTreeMap<CuDeviceAttribute, i32>,
    ) -> Result<Self, CuResult> {
        let addresses = total.max(UNIT).checked_mul(4);
        let addresses = addresses.and_then(|bytes| bytes.checked_next_multiple_of(UNIT));
        let most = usize::MAX - 2 * UNIT;
        let addresses = addresses.filter(|&bytes| bytes <= most).ok_or(CuResult::OUT_OF_MEMORY)?;
        // Two units more than are used: placement starts at a multiple of the unit, and addresses
        // just below the first or above the last allocation still belong to this device, so that a
        // wrong address finds its machine.
        let visible = Mapping::new(addresses + 2 * UNIT, false)?;
        let shadow = Mapping::new(addresses + 2 * UNIT, true)?;
        let mut units = FreeRanges::default();
        units.insert(first_offset(&visible), addresses);
        Ok(Self {
            ordinal,
            name,
            total,
            free: total,
            visible,
            shadow,
            units,
            small: FreeRanges::default(),
            ledger: None,
            attributes,
            retained: 0,
            failed: None,
            peers: BTreeSet::new(),
            default_pool: 0,
            current_pool: 0,
            managed_pool: 0,
        })
    }

    /// The bytes that no process has taken.
    pub(crate) fn free(&self) -> usize {
        let used = self.ledger.as_ref().and_then(|ledger| ledger.used(self.ordinal));
        used.map_or(self.free, |used| self.total.saturating_sub(used))
    }

    /// The address range of this device, as (start, length).
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.visible.base(), self.visible.len())
    }

    /// The host address of the bytes at `address`, if it belongs to this device.
    pub(crate) fn shadow_of(&self, address: usize) -> Option<usize> {
        self.visible.offset_of(address).map(|offset| self.shadow.base() + offset)
    }

    /// The address as an offset from the first one that is allocated, for traces.
    pub(crate) fn relative(&self, address: usize) -> Option<usize> {
        self.visible.offset_of(address)?;
        address.checked_sub(self.visible.base() + first_offset(&self.visible))
    }

    /// Allocates memory; `None` if it is exhausted.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let offset = if bytes >= LARGE {
            self.take_units(bytes)?
        } else {
            self.take_small(bytes.next_multiple_of(ALIGNMENT))?
        };
        Some(self.visible.base() + offset)
    }

    /// Frees what [`allocate`](Self::allocate) with the same `bytes` returned.
    pub(crate) fn deallocate(&mut self, address: usize, bytes: usize) {
        let offset = self.visible.offset_of(address);
        let offset = offset.expect("memory is freed on the device that allocated it");
        if bytes >= LARGE {
            self.give_units(offset, bytes.next_multiple_of(UNIT));
        } else {
            self.give_small(offset, bytes.next_multiple_of(ALIGNMENT));
        }
    }

    fn take_units(&mut self, bytes: usize) -> Option<usize> {
        let len = bytes.checked_next_multiple_of(UNIT).filter(|&len| len <= self.free)?;
        // Lengths are multiples of the unit, so first fit keeps alignment relative to the first
        // offset.
        if self.ledger.as_ref().is_some_and(|ledger| !ledger.take(self.ordinal, len, self.total)) {
            return None;
        }
        let Some(offset) = self.units.take(len, 1) else {
            self.give_to_ledger(len);
            return None;
        };
        self.free -= len;
        Some(offset)
    }

    fn give_units(&mut self, offset: usize, len: usize) {
        self.free += len;
        self.units.insert(offset, len);
        self.shadow.discard(offset, len);
        self.give_to_ledger(len);
    }

    fn give_to_ledger(&self, len: usize) {
        if let Some(ledger) = &self.ledger {
            ledger.give(self.ordinal, len);
        }
    }

    /// Moves the bytes of allocated memory to a file, and maps the file in their place.
    pub(crate) fn share(
        &mut self,
        address: usize,
        contents: Contents,
    ) -> Result<SharedBytes, CuResult> {
        let offset = self.visible.offset_of(address).ok_or(CuResult::INVALID_VALUE)?;
        let len = contents.bytes;
        let shadow = &self.shadow;
        let write = |file: &File| {
            contents.write(file)?;
            shadow.save(offset, len, file)
        };
        let file = if let Some(ledger) = &self.ledger {
            let save = |file: &File| write(file).map_err(|_| io::ErrorKind::Other.into());
            let shared = ledger.share(self.ordinal, len, save);
            let (file, path) = shared.map_err(|_| CuResult::OPERATING_SYSTEM)?;
            // Counted by the file from here on.
            self.free += len;
            (file, Some(path))
        } else {
            let file = shared_bytes::anonymous()?;
            write(&file)?;
            (file, None)
        };
        self.shadow.share(offset, len, &file.0)?;
        SharedBytes::new(file)
    }

    /// A descriptor of shared bytes, for another process.
    pub(crate) fn reopen(&self, bytes: &SharedBytes) -> Result<File, CuResult> {
        let file = match (&bytes.place, &self.ledger) {
            (Place::Open(file), _) => file.try_clone(),
            (Place::Named(path), Some(ledger)) => ledger.reopen(path),
            (Place::Named(path), None) => File::open(path),
        };
        file.map_err(|_| CuResult::OPERATING_SYSTEM)
    }

    /// Maps bytes of another process; returns the address.
    pub(crate) fn import(
        &mut self,
        file: &File,
        bytes: usize,
    ) -> Result<(usize, SharedBytes), CuResult> {
        let path = self.ledger.as_ref().and_then(|ledger| ledger.path_of(file));
        let file = file.try_clone().map_err(|_| CuResult::OPERATING_SYSTEM)?;
        let is_counted = path.is_none();
        if is_counted && bytes > self.free {
            return Err(CuResult::OUT_OF_MEMORY);
        }
        let offset = self.units.take(bytes, 1).ok_or(CuResult::OUT_OF_MEMORY)?;
        if let Err(code) = self.shadow.share(offset, bytes, &file) {
            self.units.insert(offset, bytes);
            return Err(code);
        }
        if is_counted {
            self.free -= bytes;
        }
        Ok((self.visible.base() + offset, SharedBytes::new((file, path))?))
    }

    /// Ends a mapping of shared bytes.
    pub(crate) fn end_shared(&mut self, address: usize, len: usize, shared: SharedBytes) {
        let offset = self.visible.offset_of(address);
        let offset = offset.expect("memory is freed on the device that allocated it");
        if self.shadow.unshare(offset, len).is_err() {
            // The addresses are not used again, so that nothing reads another process's bytes.
            return;
        }
        self.units.insert(offset, len);
        match (shared.place, &self.ledger) {
            (Place::Named(path), Some(ledger)) => ledger.end(&path),
            (Place::Named(_), None) => {}
            (Place::Open(_), _) => self.free += len,
        }
    }

    fn take_small(&mut self, len: usize) -> Option<usize> {
        if let Some(offset) = self.small.take(len, 1) {
            return Some(offset);
        }
        let unit = self.take_units(UNIT)?;
        self.small.insert(unit, UNIT);
        self.small.take(len, 1)
    }

    fn give_small(&mut self, offset: usize, len: usize) {
        let (start, free) = self.small.insert(offset, len);
        let phase = first_offset(&self.visible) % UNIT;
        let first = (start + UNIT - phase).next_multiple_of(UNIT) - UNIT + phase;
        let last = (start + free - phase) / UNIT * UNIT + phase;
        if last > first {
            self.small.remove(first, last - first);
            self.give_units(first, last - first);
        }
    }

    pub(crate) fn attribute(&self, attribute: CuDeviceAttribute) -> Option<i32> {
        self.attributes.get(&attribute).copied()
    }
}

/// The offset at which placement starts: the first multiple of the unit inside.
fn first_offset(visible: &Mapping) -> usize {
    (visible.base() + 1).next_multiple_of(UNIT) - visible.base()
}

/// The default attributes of a device.
pub(crate) fn default_attributes() -> BTreeMap<CuDeviceAttribute, i32> {
    use CuDeviceAttribute as A;
    let exports = cfg!(target_os = "linux");
    BTreeMap::from([
        // Libraries choose the shape of a launch by these, and divide by them.
        (A::MULTIPROCESSOR_COUNT, 132),
        (A::MAX_THREADS_PER_MULTIPROCESSOR, 2048),
        (A::MAX_THREADS_PER_BLOCK, 1024),
        (A::WARP_SIZE, 32),
        (A::INTEGRATED, 0),
        (A::L2_CACHE_SIZE, 50 << 20),
        (A::UNIFIED_ADDRESSING, 1),
        (A::COMPUTE_CAPABILITY_MAJOR, 9),
        (A::COMPUTE_CAPABILITY_MINOR, 0),
        (A::MANAGED_MEMORY, 1),
        (A::PAGEABLE_MEMORY_ACCESS, 0),
        (A::CONCURRENT_MANAGED_ACCESS, 1),
        (A::CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1),
        (A::HOST_REGISTER_SUPPORTED, 1),
        (A::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0),
        (A::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
        (A::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, i32::from(exports)),
        (A::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1),
        (A::MEMORY_POOLS_SUPPORTED, 1),
        (A::MEMPOOL_SUPPORTED_HANDLE_TYPES, 0),
        (A::IPC_EVENT_SUPPORTED, 0),
        // As an H100 without an NVLink domain says, which refuses such handles all the same.
        (A::HANDLE_TYPE_FABRIC_SUPPORTED, i32::from(exports)),
        (A::HOST_NUMA_ID, -1),
        (A::MEM_DECOMPRESS_ALGORITHM_MASK, 0),
        (A::HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, i32::from(exports)),
        (A::HOST_NUMA_MEMORY_POOLS_SUPPORTED, 0),
        (A::HOST_MEMORY_POOLS_SUPPORTED, 1),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_allocations_share_units_and_release_them() {
        let mut device = Device::new(0, String::new(), 4 * UNIT, BTreeMap::new()).unwrap();
        let small: Vec<_> = (0..3).map(|_| device.allocate(1).unwrap()).collect();
        assert_eq!(device.free(), 3 * UNIT);
        assert_eq!(small[1] - small[0], ALIGNMENT);
        assert_eq!(small[0] % UNIT, 0);
        assert_eq!(device.allocate(4 * UNIT), None);
        let large = device.allocate(LARGE).unwrap();
        assert_eq!(device.free(), 2 * UNIT);
        for address in small {
            device.deallocate(address, 1);
        }
        device.deallocate(large, LARGE);
        assert_eq!(device.free(), 4 * UNIT);
        assert!(device.allocate(4 * UNIT).is_some(), "freed memory is coalesced");
    }
}
