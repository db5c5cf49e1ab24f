//! Exit statuses of the program.

/// The exit status where every event succeeded.
pub const SUCCESS: u8 = 0;
/// The exit status where some event failed, or not everything was checked.
pub const FAILURE: u8 = 1;
/// The exit status of bad input or usage.
pub const BAD_INPUT: u8 = 2;
/// The exit status of a check that found uses of memory that are not ordered.
pub const VIOLATIONS: u8 = 3;
/// The exit status of a check that found nothing in a program whose own status is not 0 and would
/// be taken for one of these.
pub const PROGRAM_FAILED: u8 = 4;
