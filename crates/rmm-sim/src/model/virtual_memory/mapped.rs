//! Physical memory, its mappings, and their access rights.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;

use rmm_sys::{CuMemAccessFlags, CuMemHandleType};

use crate::model::operation::Operation;
use crate::model::shared_bytes::SharedBytes;

/// The number of the host, where memory and rights have that of a device.
pub(crate) const HOST: usize = usize::MAX;

/// Physical memory.
#[derive(Debug)]
pub(crate) struct Physical {
    /// Its device, or [`HOST`].
    pub(crate) home: usize,
    /// Its address in the range of its device or of the host.
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    /// The program's references: one from its creation, and one from each
    /// `cuMemRetainAllocationHandle`.
    pub(crate) references: usize,
    pub(crate) mappings: usize,
    /// The handle types that it can be exported as.
    pub(crate) handle_types: CuMemHandleType,
    pub(crate) has_rdma: bool,
    /// Where its bytes are, once it was exported or if it was imported.
    pub(crate) shared: Option<SharedBytes>,
    /// The file that its fabric handle names, once it has one.
    pub(crate) fabric: Option<File>,
}

impl Physical {
    pub(crate) fn backing(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }
}

/// A mapping of physical memory at reserved addresses.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// Larger than that of every earlier mapping.
    pub(crate) id: u64,
    pub(crate) bytes: usize,
    /// The key of the physical memory.
    pub(crate) physical: u64,
    /// Its device, or [`HOST`].
    pub(crate) home: usize,
    /// The address of the physical memory.
    pub(crate) backing: usize,
    /// The access right of each device and of the host; none if it is missing.
    pub(crate) access: BTreeMap<usize, CuMemAccessFlags>,
}

impl Mapped {
    pub(crate) fn access_of(&self, device: usize) -> CuMemAccessFlags {
        self.access.get(&device).copied().unwrap_or(CuMemAccessFlags::NONE)
    }
}

/// Whether an access right permits an operation.
pub(crate) fn permits(access: CuMemAccessFlags, operation: Operation) -> bool {
    match operation {
        Operation::Read => access != CuMemAccessFlags::NONE,
        // The owner of allocated memory may write it.
        Operation::Write | Operation::Update | Operation::Allocate | Operation::Free => {
            access == CuMemAccessFlags::READ_WRITE
        }
    }
}
