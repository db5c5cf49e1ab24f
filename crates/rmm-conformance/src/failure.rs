//! The error of a check.

use std::fmt;
use std::panic::Location;

use rmm_core::Error;
use rmm_sys::CuResult;

/// What a check found, with the place in this crate that found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure(String);

/// A check's result.
pub type CheckResult = Result<(), Failure>;

impl Failure {
    /// A failure that `message` describes.
    #[track_caller]
    pub fn new(message: impl fmt::Display) -> Self {
        Self(format!("{message} ({})", Location::caller()))
    }
}

/// Fails with `message` unless the condition holds.
///
/// # Errors
/// A failure with the message if it does not hold.
#[track_caller]
pub fn ensure(holds: bool, message: impl FnOnce() -> String) -> CheckResult {
    if holds { Ok(()) } else { Err(Failure::new(message())) }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

impl From<CuResult> for Failure {
    #[track_caller]
    fn from(code: CuResult) -> Self {
        Self::new(code)
    }
}

impl From<std::io::Error> for Failure {
    #[track_caller]
    fn from(error: std::io::Error) -> Self {
        Self::new(error)
    }
}
