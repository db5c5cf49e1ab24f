//! The C structures have the layout of another binding of DLPack.

use std::mem::offset_of;

use dlpark::ffi;
use rmm_interop_dlpack as ours;

/// Compares sizes, alignments and offsets at compile time.
macro_rules! assert_same {
    ($($structure:ident { $($field:ident),* })*) => {$(
        const _: () = {
            assert!(size_of::<ours::$structure>() == size_of::<ffi::$structure>());
            assert!(align_of::<ours::$structure>() == align_of::<ffi::$structure>());
            $(assert!(
                offset_of!(ours::$structure, $field) == offset_of!(ffi::$structure, $field),
                stringify!($structure, $field)
            );)*
        };
    )*};
}

assert_same! {
    DLPackVersion { major, minor }
    DLDevice { device_type, device_id }
    DLDataType { code, bits, lanes }
    DLTensor { data, device, ndim, dtype, shape, strides, byte_offset }
    DLManagedTensorVersioned { version, manager_ctx, deleter, flags, dl_tensor }
}

#[test]
fn numbers_are_those_of_dlpack() {
    assert_eq!(ours::DLDevice::CUDA, ffi::DLDeviceType::CUDA.0);
    assert_eq!(ours::DLDevice::CUDA_HOST, ffi::DLDeviceType::CUDAHOST.0);
    assert_eq!(ours::DLDevice::CUDA_MANAGED, ffi::DLDeviceType::CUDAMANAGED.0);
    assert_eq!(ours::DLDataType::INT, ffi::DLDataTypeCode::INT.0);
    assert_eq!(ours::DLDataType::UINT, ffi::DLDataTypeCode::UINT.0);
    assert_eq!(ours::DLDataType::FLOAT, ffi::DLDataTypeCode::FLOAT.0);
    assert_eq!(ours::DLDataType::BFLOAT, ffi::DLDataTypeCode::BFLOAT.0);
    assert_eq!(ours::FLAG_READ_ONLY, u64::from(ffi::DLPACK_FLAG_BITMASK_READ_ONLY));
    assert_eq!(ours::FLAG_IS_COPIED, u64::from(ffi::DLPACK_FLAG_BITMASK_IS_COPIED));
    assert_eq!(ours::DLPackVersion::EXPORTED.major, ffi::DLPACK_MAJOR_VERSION);
}
