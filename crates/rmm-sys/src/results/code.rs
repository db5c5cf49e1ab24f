//! The type of a status code, and of a row of the table of codes.

/// What a driver function returned: a plain number, so that a code of a newer driver is a value
/// like any other.
///
/// Names and texts come from a table in this crate, never from the driver, so they can be had when
/// the driver is gone.
///
/// ```
/// use rmm_sys::CuResult;
///
/// let code = CuResult(2);
/// assert_eq!(code, CuResult::OUT_OF_MEMORY);
/// assert_eq!(code.name(), Some("CUDA_ERROR_OUT_OF_MEMORY"));
/// assert_eq!(code.result(), Err(CuResult::OUT_OF_MEMORY));
/// assert_eq!(CuResult(12345).to_string(), "CUDA error 12345: a code that this build does not know");
/// ```
#[doc(alias = "CUresult")]
#[repr(transparent)]
#[must_use = "a driver call may have failed"]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CuResult(pub u32);

/// What is known of one code.
pub(super) struct Row {
    pub(super) code: CuResult,
    /// CUDA's name.
    pub(super) name: &'static str,
    /// What it means, as a phrase that fits after a colon.
    pub(super) text: &'static str,
}
