//! Status codes of driver functions.

use std::fmt;

mod code;
mod table;

#[cfg(test)]
mod tests;

pub use code::CuResult;
use code::Row;
use table::TABLE;

impl CuResult {
    /// Every code that this build knows, in ascending order.
    pub fn known() -> impl ExactSizeIterator<Item = Self> {
        TABLE.iter().map(|row| row.code)
    }

    /// CUDA's name for the code, if this build knows it.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|row| row.name)
    }

    /// A short description of the code.
    pub fn text(self) -> &'static str {
        self.row().map_or("a code that this build does not know", |row| row.text)
    }

    /// Whether the call succeeded.
    pub const fn is_success(self) -> bool {
        self.0 == Self::SUCCESS.0
    }

    /// The code as a `Result`, for `?`.
    ///
    /// # Errors
    /// The code itself, unless it is [`SUCCESS`](Self::SUCCESS).
    pub const fn result(self) -> Result<(), Self> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }

    /// Whether a stream capture is the reason: the codes 900 to 908. Such an answer says nothing
    /// about the work of a stream: it may be running, and the stream may be captured.
    ///
    /// ```
    /// use rmm_sys::CuResult;
    ///
    /// assert!(CuResult::STREAM_CAPTURE_UNSUPPORTED.is_capture());
    /// assert!(CuResult::CAPTURED_EVENT.is_capture());
    /// assert!(!CuResult::NOT_READY.is_capture());
    /// ```
    pub const fn is_capture(self) -> bool {
        Self::STREAM_CAPTURE_UNSUPPORTED.0 <= self.0
            && self.0 <= Self::STREAM_CAPTURE_WRONG_THREAD.0
    }

    /// Whether the error is sticky: the context is lost, and every later call in it returns this
    /// code.
    ///
    /// These are the codes of which the driver API's reference says that they leave "the process in
    /// an inconsistent state and any further CUDA work will return the same error", those that say
    /// that the context "cannot be used anymore" or is destroyed, and
    /// [`DEINITIALIZED`](Self::DEINITIALIZED). After any other error, work may still run.
    ///
    /// ```
    /// use rmm_sys::CuResult;
    ///
    /// assert!(CuResult::ILLEGAL_ADDRESS.is_sticky() && CuResult::DEINITIALIZED.is_sticky());
    /// assert!(!CuResult::INVALID_VALUE.is_sticky() && !CuResult::UNKNOWN.is_sticky());
    /// assert!(!CuResult::STREAM_CAPTURE_UNSUPPORTED.is_sticky());
    /// ```
    pub const fn is_sticky(self) -> bool {
        matches!(
            self,
            Self::DEINITIALIZED
                | Self::ECC_UNCORRECTABLE
                | Self::NVLINK_UNCORRECTABLE
                | Self::CONTAINED
                | Self::ILLEGAL_ADDRESS
                | Self::LAUNCH_TIMEOUT
                | Self::CONTEXT_IS_DESTROYED
                | Self::ASSERT
                | Self::HARDWARE_STACK_ERROR
                | Self::ILLEGAL_INSTRUCTION
                | Self::MISALIGNED_ADDRESS
                | Self::INVALID_ADDRESS_SPACE
                | Self::INVALID_PC
                | Self::LAUNCH_FAILED
                | Self::TENSOR_MEMORY_LEAK
        )
    }

    fn row(self) -> Option<&'static Row> {
        TABLE.binary_search_by_key(&self.0, |row| row.code.0).ok().map(|index| &TABLE[index])
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY (2): not enough memory...`
impl fmt::Display for CuResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self(code), text) = (self, self.text());
        match self.name() {
            Some(name) => write!(f, "{name} ({code}): {text}"),
            None => write!(f, "CUDA error {code}: {text}"),
        }
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY`, or `CuResult(12345)` for a code without a name.
impl fmt::Debug for CuResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => f.debug_tuple("CuResult").field(&self.0).finish(),
        }
    }
}

impl std::error::Error for CuResult {}
