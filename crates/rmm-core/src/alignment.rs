//! Validation of requested alignments.

use crate::Error;

/// Returns the alignment in bytes if elements of type `T` can be aligned to it.
///
/// A resource may support less: every one supports up to
/// [`CUDA_ALLOCATION_ALIGNMENT`](crate::CUDA_ALLOCATION_ALIGNMENT).
///
/// ```
/// use rmm_core::allocation_alignment;
///
/// assert_eq!(allocation_alignment::<f64>(512)?, 512);
/// let error = allocation_alignment::<f64>(4).unwrap_err();
/// assert!(error.is_invalid_argument());
/// let text = "invalid argument to allocation_alignment: 4 bytes are less than the 8 of `f64`";
/// assert_eq!(error.to_string(), text);
/// # Ok::<(), rmm_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if it is not a power of two,
/// or is less than the alignment of `T`.
#[doc(alias = "cuda::allocation_alignment")]
#[doc(alias = "cuda::allocation_alignment_t")]
pub fn allocation_alignment<T>(alignment: usize) -> Result<usize, Error> {
    let own = align_of::<T>();
    let message = if !alignment.is_power_of_two() {
        format!("{alignment} bytes are no power of two")
    } else if alignment < own {
        format!("{alignment} bytes are less than the {own} of `{}`", std::any::type_name::<T>())
    } else {
        return Ok(alignment);
    };
    Err(Error::invalid_argument("allocation_alignment", message))
}
