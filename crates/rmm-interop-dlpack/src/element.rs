//! Element types.

use bytemuck::Pod;

use crate::abi::DLDataType;

/// A type that tensors have elements of.
///
/// ```
/// use rmm_interop_dlpack::{DLDataType, Element};
///
/// let expected = DLDataType { code: DLDataType::FLOAT, bits: 32, lanes: 1 };
/// assert_eq!(f32::DATA_TYPE, expected);
/// ```
///
/// # Safety
/// `DATA_TYPE` describes the type: code, size and number of lanes.
pub unsafe trait Element: Pod + Send + Sync {
    /// How DLPack names the type.
    const DATA_TYPE: DLDataType;
}

macro_rules! elements {
    ($($code:ident: $($element:ty),+;)+) => {$($(
        // SAFETY: the size is the type's, and the code names its kind.
        unsafe impl Element for $element {
            const DATA_TYPE: DLDataType = DLDataType {
                code: DLDataType::$code,
                bits: bits::<$element>(),
                lanes: 1,
            };
        }
    )+)+};
}

/// The size of a type in bits.
const fn bits<T>() -> u8 {
    assert!(size_of::<T>() <= 8, "no element has more than 64 bits");
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    let bytes = size_of::<T>() as u8;
    8 * bytes
}

elements! {
    INT: i8, i16, i32, i64;
    UINT: u8, u16, u32, u64;
    FLOAT: f32, f64;
}

#[cfg(feature = "half")]
elements! {
    FLOAT: half::f16;
    BFLOAT: half::bf16;
}
