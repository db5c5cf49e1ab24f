//! The C structures of DLPack 1.x, as in `dlpack/dlpack.h`. No Rust `enum` is among them, since a
//! producer may be newer.

use std::ffi::c_void;

/// A version of DLPack. Another major version has another layout; a minor version adds values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DLPackVersion {
    /// The number that changes with the layout: 1.
    pub major: u32,
    /// The number that changes with new values.
    pub minor: u32,
}

impl DLPackVersion {
    /// What exported tensors declare: nothing in them is newer.
    pub const EXPORTED: Self = Self { major: 1, minor: 0 };
}

/// Where the memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DLDevice {
    /// The kind of memory: one of the constants, or another.
    pub device_type: u32,
    /// The ordinal of the device; 0 for pinned and managed memory.
    pub device_id: i32,
}

impl DLDevice {
    /// The type of CUDA device memory, `kDLCUDA`.
    #[doc(alias = "kDLCUDA")]
    pub const CUDA: u32 = 2;
    /// The type of pinned host memory, `kDLCUDAHost`.
    #[doc(alias = "kDLCUDAHost")]
    pub const CUDA_HOST: u32 = 3;
    /// The type of managed memory, `kDLCUDAManaged`.
    #[doc(alias = "kDLCUDAManaged")]
    pub const CUDA_MANAGED: u32 = 13;
}

/// The type of the elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DLDataType {
    /// One of the constants, or another.
    pub code: u8,
    /// The size of a lane in bits.
    pub bits: u8,
    /// The number of lanes; 1 but for vector types.
    pub lanes: u16,
}

impl DLDataType {
    /// The code of signed integers, `kDLInt`.
    #[doc(alias = "kDLInt")]
    pub const INT: u8 = 0;
    /// The code of unsigned integers, `kDLUInt`.
    #[doc(alias = "kDLUInt")]
    pub const UINT: u8 = 1;
    /// The code of IEEE floating-point numbers, `kDLFloat`.
    #[doc(alias = "kDLFloat")]
    pub const FLOAT: u8 = 2;
    /// The code of brain floating-point numbers, `kDLBfloat`.
    #[doc(alias = "kDLBfloat")]
    pub const BFLOAT: u8 = 4;
}

/// A tensor that something else owns.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DLTensor {
    /// The address of the memory; null if there are no elements.
    pub data: *mut c_void,
    /// Where the memory is.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// The number of elements in each dimension: `ndim` numbers.
    pub shape: *mut i64,
    /// The distance of neighbours in each dimension, in elements; null in older tensors means
    /// compact and row-major.
    pub strides: *mut i64,
    /// The distance of the first element from `data`, in bytes.
    pub byte_offset: u64,
}

/// The function that frees a tensor.
pub type DlpackDeleter = unsafe extern "C" fn(*mut DLManagedTensorVersioned);

/// A tensor, and how to free it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// The version that the structure follows: no other field is read if the major one differs.
    pub version: DLPackVersion,
    /// What the deleter needs.
    pub manager_ctx: *mut c_void,
    /// Called once with this structure, after the last use of the memory; may be null.
    pub deleter: Option<DlpackDeleter>,
    /// [`FLAG_READ_ONLY`] and others.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// The consumer does not write the tensor.
#[doc(alias = "DLPACK_FLAG_BITMASK_READ_ONLY")]
pub const FLAG_READ_ONLY: u64 = 1;
/// The tensor is a copy, made for the consumer.
#[doc(alias = "DLPACK_FLAG_BITMASK_IS_COPIED")]
pub const FLAG_IS_COPIED: u64 = 2;
