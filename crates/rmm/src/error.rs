//! Errors, and the details of out-of-memory errors.

pub use rmm_core::{
    DeviceUsage, Error, ErrorKind, LimitId, OomReason, PendingBytes, PoolUsage, Remedy,
    RemedyAction,
};
pub use rmm_spec::SpecError;

/// A result whose error is [`Error`], unless another is named.
///
/// ```
/// fn first_half(bytes: usize) -> rmm::Result<usize> {
///     Ok(bytes / 2)
/// }
/// assert_eq!(first_half(512)?, 256);
/// # Ok::<(), rmm::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;
