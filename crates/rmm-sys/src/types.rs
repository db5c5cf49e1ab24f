//! Structures of the driver API, with the layout of `cuda.h`.

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

/// A memory location: a type and an id.
#[doc(alias = "CUmemLocation")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CuMemLocation {
    /// The type of `id`.
    pub kind: CuMemLocationType,
    /// The device's or NUMA node's number.
    pub id: c_int,
}

/// The access of a location to memory.
#[doc(alias = "CUmemAccessDesc")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CuMemAccessDesc {
    /// The device or host.
    pub location: CuMemLocation,
    /// Its access.
    pub flags: CuMemAccessFlags,
}

/// The properties of a new memory pool. Newer drivers define fields in what older ones reserve as
/// zeros, so one structure serves every driver: start from [`CuMemPoolProps::pinned`] and leave
/// unused fields zero.
#[doc(alias = "CUmemPoolProps")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuMemPoolProps {
    /// The kind of memory.
    pub kind: CuMemAllocationType,
    /// The handle types that the pool can be exported as.
    pub handle_types: CuMemHandleType,
    /// Where the memory is.
    pub location: CuMemLocation,
    /// Windows' security attributes; null elsewhere.
    pub win32_security_attributes: *mut c_void,
    /// Upper bound on the bytes of the pool; 0 for the driver's default. Since 12.2.
    pub max_size: usize,
    /// Intended use. Since 12.6.
    pub usage: c_ushort,
    /// Zero.
    pub reserved: [c_uchar; 54],
}

impl CuMemPoolProps {
    /// A pool of device memory (or of pinned host memory, by `location`), not exportable, without a
    /// limit.
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

/// The properties of physical memory from `cuMemCreate`.
#[doc(alias = "CUmemAllocationProp")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CuMemAllocationProp {
    /// The kind of memory.
    pub kind: CuMemAllocationType,
    /// The handle types that the memory can be exported as.
    pub requested_handle_types: CuMemHandleType,
    /// Where the memory is.
    pub location: CuMemLocation,
    /// Windows' security attributes; null elsewhere.
    pub win32_handle_meta_data: *mut c_void,
    /// 1 for compressible memory.
    pub compression_type: c_uchar,
    /// 1 for memory that `GPUDirect` RDMA can access.
    pub gpu_direct_rdma_capable: c_uchar,
    /// Intended use.
    pub usage: c_ushort,
    /// Zero.
    pub reserved: [c_uchar; 4],
}

impl CuMemAllocationProp {
    /// Memory at `location`, not exportable.
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

/// An exported allocation of an exported pool, to be sent to another process.
#[doc(alias = "CUmemPoolPtrExportData")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CuMemPoolPtrExportData {
    /// Opaque bytes.
    pub reserved: [c_uchar; 64],
}

/// An exported device allocation, to be sent to another process.
#[doc(alias = "CUipcMemHandle")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CuIpcMemHandle {
    /// Opaque bytes.
    pub reserved: [c_uchar; 64],
}

/// An exported event, to be sent to another process.
#[doc(alias = "CUipcEventHandle")]
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CuIpcEventHandle {
    /// Opaque bytes.
    pub reserved: [c_uchar; 64],
}
