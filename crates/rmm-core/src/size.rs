//! Sizes and alignments.

use crate::DevicePtr;

/// The alignment in bytes of every address from a CUDA allocator, and the granule of the
/// suballocators.
#[doc(alias = "rmm::CUDA_ALLOCATION_ALIGNMENT")]
#[doc(alias = "cuda::mr::default_cuda_malloc_alignment")]
pub const CUDA_ALLOCATION_ALIGNMENT: usize = 256;

/// The minimum alignment in bytes of the system's `malloc`: two machine words, 16 on a 64-bit
/// system.
///
/// ```
/// assert!(rmm_core::is_supported_alignment(rmm_core::HOST_ALLOCATION_ALIGNMENT));
/// ```
#[doc(alias = "cuda::mr::default_cuda_malloc_host_alignment")]
#[doc(alias = "max_align_t")]
pub const HOST_ALLOCATION_ALIGNMENT: usize = 2 * size_of::<usize>();

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
const _: () = assert!(HOST_ALLOCATION_ALIGNMENT == align_of::<libc::max_align_t>());

/// The smallest multiple of `alignment` that is not below `value`, or `None` if `alignment` is not
/// a power of two or the result does not fit.
///
/// ```
/// assert_eq!(rmm_core::align_up(1, 256), Some(256));
/// assert_eq!(rmm_core::align_up(512, 256), Some(512));
/// assert_eq!(rmm_core::align_up(usize::MAX, 256), None);
/// assert_eq!(rmm_core::align_up(1, 3), None);
/// ```
#[doc(alias = "rmm::align_up")]
pub const fn align_up(value: usize, alignment: usize) -> Option<usize> {
    if !alignment.is_power_of_two() {
        return None;
    }
    match value.checked_add(alignment - 1) {
        Some(sum) => Some(sum & !(alignment - 1)),
        None => None,
    }
}

/// The largest multiple of `alignment` that is not above `value`, or `None` if `alignment` is not a
/// power of two.
///
/// ```
/// assert_eq!(rmm_core::align_down(511, 256), Some(256));
/// assert_eq!(rmm_core::align_down(511, 0), None);
/// ```
#[doc(alias = "rmm::align_down")]
pub const fn align_down(value: usize, alignment: usize) -> Option<usize> {
    if alignment.is_power_of_two() { Some(value & !(alignment - 1)) } else { None }
}

/// Whether the alignment is valid: a power of two. A resource may support less.
///
/// ```
/// assert!(rmm_core::is_supported_alignment(256));
/// assert!(!rmm_core::is_supported_alignment(0));
/// assert!(!rmm_core::is_supported_alignment(3));
/// ```
#[doc(alias = "rmm::is_supported_alignment")]
#[doc(alias = "rmm::is_pow2")]
pub const fn is_supported_alignment(alignment: usize) -> bool {
    alignment.is_power_of_two()
}

/// Whether every base resource supports this alignment: a power of two of at most
/// [`CUDA_ALLOCATION_ALIGNMENT`].
///
/// ```
/// assert!(rmm_core::is_supported_base_resource_alignment(256));
/// assert!(!rmm_core::is_supported_base_resource_alignment(512));
/// ```
#[doc(alias = "rmm::is_supported_base_resource_alignment")]
pub const fn is_supported_base_resource_alignment(alignment: usize) -> bool {
    is_supported_alignment(alignment) && alignment <= CUDA_ALLOCATION_ALIGNMENT
}

/// Whether `value` is a multiple of `alignment`; `false` if `alignment` is not a power of two.
///
/// ```
/// assert!(rmm_core::is_aligned(512, 256));
/// assert!(!rmm_core::is_aligned(511, 256));
/// assert!(!rmm_core::is_aligned(6, 3));
/// ```
#[doc(alias = "rmm::is_aligned")]
pub const fn is_aligned(value: usize, alignment: usize) -> bool {
    alignment.is_power_of_two() && value & (alignment - 1) == 0
}

/// Whether an address is a multiple of `alignment`, as [`is_aligned`].
///
/// ```
/// use rmm_core::{DevicePtr, is_pointer_aligned};
///
/// assert!(is_pointer_aligned(DevicePtr(0x1000), 256));
/// assert!(!is_pointer_aligned(DevicePtr(0x1001), 256));
/// ```
#[doc(alias = "rmm::is_pointer_aligned")]
pub const fn is_pointer_aligned(pointer: DevicePtr, alignment: usize) -> bool {
    alignment.is_power_of_two() && pointer.0 & (alignment as u64 - 1) == 0
}

/// Formats a number of bytes in the largest binary unit in which it is at least 1.
///
/// ```
/// assert_eq!(rmm_core::format_bytes(512), "512 B");
/// assert_eq!(rmm_core::format_bytes(3 << 20), "3.0 MiB");
/// assert_eq!(rmm_core::format_bytes((1 << 30) + (1 << 29)), "1.5 GiB");
/// ```
#[doc(alias = "rmm::detail::format_bytes")]
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let exponent = bytes.ilog2() / 10;
    let unit = 1u64 << (10 * exponent);
    // Tenths, rounded down, in integer arithmetic: exact for every `u64`.
    let tenths = u128::from(bytes) * 10 / u128::from(unit);
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[exponent as usize - 1])
}
