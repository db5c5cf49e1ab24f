//! Exit statuses of the program.

/// The exit status where every event succeeded.
pub const SUCCESS: u8 = 0;
/// The exit status where some event failed.
pub const FAILURE: u8 = 1;
/// The exit status of bad input or usage.
pub const BAD_INPUT: u8 = 2;
/// The exit status of a check that found uses of memory that are not ordered.
pub const VIOLATIONS: u8 = 3;
