//! Physical memory, the mappings of it, and who may use them.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;

use rmm_sys::CuMemAccessFlags;

use crate::model::operation::Operation;

/// Physical memory.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) device: usize,
    /// Where it lies in its device's range of addresses.
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    /// The references that the program holds: one from making it, and one from each time that it
    /// asked for the handle.
    pub(crate) references: usize,
    pub(crate) mappings: usize,
}

impl Physical {
    pub(crate) fn backing(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }
}

/// Physical memory at reserved addresses.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// Larger than that of every mapping made before.
    pub(crate) id: u64,
    pub(crate) bytes: usize,
    /// The key of the physical memory.
    pub(crate) physical: u64,
    pub(crate) device: usize,
    /// Where the physical memory lies.
    pub(crate) backing: usize,
    /// What each device may do; nothing unless it is told here.
    pub(crate) access: BTreeMap<usize, CuMemAccessFlags>,
}

impl Mapped {
    pub(crate) fn access_of(&self, device: usize) -> CuMemAccessFlags {
        self.access.get(&device).copied().unwrap_or(CuMemAccessFlags::NONE)
    }
}

/// Whether these rights are enough for an operation.
pub(crate) fn permits(access: CuMemAccessFlags, operation: Operation) -> bool {
    match operation {
        Operation::Read => access != CuMemAccessFlags::NONE,
        // Whoever has memory that is handed out may write it.
        Operation::Write | Operation::Update | Operation::Allocate | Operation::Free => {
            access == CuMemAccessFlags::READ_WRITE
        }
    }
}
