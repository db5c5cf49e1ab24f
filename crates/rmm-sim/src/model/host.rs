//! Host memory of a machine: pinned and managed allocations, and the segments of their pools.
//!
//! Both are memory that the host can access, from one address range per machine. Freed memory
//! becomes inaccessible, so that a use after free faults. Neither counts against a device's memory.
#![forbid(unsafe_code)]

use std::fs::File;

use rmm_sys::CuResult;

use crate::model::free_ranges::FreeRanges;
use crate::model::mapping::{Mapping, PAGE};

#[derive(Debug)]
pub(crate) struct HostMemory {
    mapping: Mapping,
    ranges: FreeRanges,
    limit: usize,
    used: usize,
}

impl HostMemory {
    pub(crate) fn new(limit: usize) -> Result<Self, CuResult> {
        let addresses = (limit.max(PAGE) * 2).next_multiple_of(PAGE);
        let mapping = Mapping::new(addresses + 2 * PAGE, false)?;
        let mut ranges = FreeRanges::default();
        ranges.insert(first_offset(&mapping), addresses);
        Ok(Self { mapping, ranges, limit, used: 0 })
    }

    /// The address range, as (start, length).
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.mapping.base(), self.mapping.len())
    }

    pub(crate) fn relative(&self, address: usize) -> Option<usize> {
        self.mapping.offset_of(address)?;
        address.checked_sub(self.mapping.base() + first_offset(&self.mapping))
    }

    /// Allocates whole pages and makes them accessible; the address is a multiple of 64 KiB.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<usize, CuResult> {
        let len = bytes.checked_next_multiple_of(PAGE).filter(|&len| len <= self.limit - self.used);
        let len = len.ok_or(CuResult::OUT_OF_MEMORY)?;
        let offset = self.ranges.take(len, 1).ok_or(CuResult::OUT_OF_MEMORY)?;
        if let Err(code) = self.mapping.protect(offset, len, true) {
            self.ranges.insert(offset, len);
            return Err(code);
        }
        self.used += len;
        Ok(self.mapping.base() + offset)
    }

    /// Frees what [`allocate`](Self::allocate) with the same `bytes` returned.
    pub(crate) fn deallocate(&mut self, address: usize, bytes: usize) {
        let offset = self.mapping.offset_of(address);
        let offset = offset.expect("memory is freed where it was allocated");
        let len = bytes.next_multiple_of(PAGE);
        self.mapping.discard(offset, len);
        // If the system refuses (too many mappings), the memory stays accessible, and a use after
        // free does not fault.
        let _ = self.mapping.protect(offset, len, false);
        self.ranges.insert(offset, len);
        self.used -= len;
    }
}

impl HostMemory {
    /// Allocates memory whose bytes are the first of a file.
    pub(crate) fn allocate_shared(&mut self, file: &File, bytes: usize) -> Result<usize, CuResult> {
        let address = self.allocate(bytes)?;
        let offset = self.mapping.offset_of(address).ok_or(CuResult::INVALID_VALUE)?;
        if let Err(code) = self.mapping.share(offset, bytes, file) {
            self.deallocate(address, bytes);
            return Err(code);
        }
        Ok(address)
    }

    /// Frees what [`allocate_shared`](Self::allocate_shared) with the same `bytes` returned.
    pub(crate) fn deallocate_shared(&mut self, address: usize, bytes: usize) {
        let offset = self.mapping.offset_of(address);
        let offset = offset.expect("memory is freed where it was allocated");
        // If the system refuses, the addresses are not used again.
        if self.mapping.unshare(offset, bytes).is_ok() {
            self.deallocate(address, bytes);
        }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // Memory that is still allocated may be a host collection that safe code goes on reading.
        if self.used > 0 {
            self.mapping.keep();
        }
    }
}

/// The offset at which placement starts. As on devices, there is a margin on both sides.
fn first_offset(mapping: &Mapping) -> usize {
    (mapping.base() + 1).next_multiple_of(PAGE) - mapping.base()
}
