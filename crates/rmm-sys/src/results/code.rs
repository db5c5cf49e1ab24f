//! The type of a status code, and of a row of the table of codes.

/// A driver function's status code: a plain number, so that an unknown code of a newer driver is a
/// valid value.
///
/// Names and texts come from a table in this crate, never from the driver, so they are available
/// when the driver is gone.
///
/// ```
/// use rmm_sys::CuResult;
///
/// let code = CuResult(2);
/// assert_eq!(code, CuResult::OUT_OF_MEMORY);
/// assert_eq!(code.name(), Some("CUDA_ERROR_OUT_OF_MEMORY"));
/// assert_eq!(code.result(), Err(CuResult::OUT_OF_MEMORY));
/// let text = CuResult(12345).to_string();
/// assert_eq!(text, "CUDA error 12345: a code that this build does not know");
/// ```
#[doc(alias = "CUresult")]
#[repr(transparent)]
#[must_use = "a driver call may have failed"]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CuResult(pub u32);

/// A row of the table of codes.
pub(super) struct Row {
    pub(super) code: CuResult,
    /// CUDA's name.
    pub(super) name: &'static str,
    /// The description, as a phrase that fits after a colon.
    pub(super) text: &'static str,
}
