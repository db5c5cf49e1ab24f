//! Structures that cross the driver's interface, laid out as `cuda.h` does.

use std::ffi::{c_int, c_uchar, c_ushort, c_void};

use crate::{CuMemAccessFlags, CuMemAllocationType, CuMemHandleType, CuMemLocationType};

/// A device's universally unique identifier.
#[doc(alias = "CUuuid")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CuUuid {
    /// The sixteen bytes, most significant first.
    pub bytes: [u8; 16],
}

/// Where memory is or should be: a kind of place and its number.
#[doc(alias = "CUmemLocation")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CuMemLocation {
    /// What `id` counts.
    pub kind: CuMemLocationType,
    /// The device's or NUMA node's number.
    pub id: c_int,
}

/// Who may use memory, and how.
#[doc(alias = "CUmemAccessDesc")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CuMemAccessDesc {
    /// The device or host that gets access.
    pub location: CuMemLocation,
    /// The access that it gets.
    pub flags: CuMemAccessFlags,
}

/// What a new memory pool should be. Fields were added over time inside a tail of zeros, so one
/// structure serves every driver: start from [`CuMemPoolProps::pinned`] and leave what you don't
/// need at zero.
#[doc(alias = "CUmemPoolProps")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuMemPoolProps {
    /// The kind of memory.
    pub kind: CuMemAllocationType,
    /// The kinds of handle that the pool can be exported to.
    pub handle_types: CuMemHandleType,
    /// Where the memory is.
    pub location: CuMemLocation,
    /// Windows' security attributes; null elsewhere.
    pub win32_security_attributes: *mut c_void,
    /// The most bytes that the pool may hold; 0 for the driver's own limit. Since 12.2.
    pub max_size: usize,
    /// Intended use. Since 12.6.
    pub usage: c_ushort,
    /// Zero.
    pub reserved: [c_uchar; 54],
}

impl CuMemPoolProps {
    /// A pool of ordinary device memory (or of pinned host memory, by `location`), not exportable,
    /// without a limit.
    pub const fn pinned(location: CuMemLocation) -> Self {
        Self {
            kind: CuMemAllocationType::PINNED,
            handle_types: CuMemHandleType::NONE,
            location,
            win32_security_attributes: std::ptr::null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }
}

/// What physical memory made by `cuMemCreate` should be.
#[doc(alias = "CUmemAllocationProp")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuMemAllocationProp {
    /// The kind of memory.
    pub kind: CuMemAllocationType,
    /// The kinds of handle that the memory can be exported to.
    pub requested_handle_types: CuMemHandleType,
    /// Where the memory is.
    pub location: CuMemLocation,
    /// Windows' security attributes; null elsewhere.
    pub win32_handle_meta_data: *mut c_void,
    /// 1 to ask for compressible memory.
    pub compression_type: c_uchar,
    /// 1 to ask for memory that other devices can reach directly.
    pub gpu_direct_rdma_capable: c_uchar,
    /// Intended use.
    pub usage: c_ushort,
    /// Zero.
    pub reserved: [c_uchar; 4],
}

impl CuMemAllocationProp {
    /// Ordinary memory at `location`, not exportable.
    pub const fn pinned(location: CuMemLocation) -> Self {
        Self {
            kind: CuMemAllocationType::PINNED,
            requested_handle_types: CuMemHandleType::NONE,
            location,
            win32_handle_meta_data: std::ptr::null_mut(),
            compression_type: 0,
            gpu_direct_rdma_capable: 0,
            usage: 0,
            reserved: [0; 4],
        }
    }
}

/// The name of one allocation of an exported pool, to be sent to another process.
#[doc(alias = "CUmemPoolPtrExportData")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CuMemPoolPtrExportData {
    /// Opaque bytes.
    pub reserved: [c_uchar; 64],
}

/// The name of a device allocation, to be sent to another process.
#[doc(alias = "CUipcMemHandle")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CuIpcMemHandle {
    /// Opaque bytes.
    pub reserved: [c_uchar; 64],
}

/// The name of an event, to be sent to another process.
#[doc(alias = "CUipcEventHandle")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CuIpcEventHandle {
    /// Opaque bytes.
    pub reserved: [c_uchar; 64],
}
