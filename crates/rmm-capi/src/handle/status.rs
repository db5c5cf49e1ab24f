//! Status codes. They never change their meaning.

/// What a function that can fail returns: one of the codes below.
pub type Status = i32;

/// Success.
pub const RMM_RS_OK: i32 = 0;
/// Out of memory: the device does not have enough, or a limit does not allow it
/// (`rmm::out_of_memory`).
pub const RMM_RS_OUT_OF_MEMORY: i32 = 1;
/// An allocation failed for another reason than memory (`rmm::bad_alloc`).
pub const RMM_RS_ALLOCATION_FAILED: i32 = 2;
/// An invalid argument (`rmm::invalid_argument`, `rmm::logic_error`).
pub const RMM_RS_INVALID_ARGUMENT: i32 = 3;
/// The driver is missing, or one of its functions failed (`rmm::cuda_error`).
pub const RMM_RS_CUDA_ERROR: i32 = 4;
/// The driver, the device or the resource does not support this.
pub const RMM_RS_REFUSED: i32 = 5;
/// A defect of this library, which was contained: the call had no effect that the caller may rely
/// on.
pub const RMM_RS_PANIC: i32 = 6;
/// It cannot be done now: work is pending, or the pool sleeps. Waiting, or waking it, helps.
pub const RMM_RS_NOT_READY: i32 = 7;
