//! What allocators tell a checker that stands in for the driver.

use crate::{CuDevicePtr, CuStream};

/// Who listens to allocators, in [`Driver::annotations`](crate::Driver::annotations).
///
/// A suballocator cuts many ranges from one allocation of the driver's, which the driver knows
/// nothing of. It tells of each here, so that a checker can judge its ranges as it judges
/// allocations.
#[derive(Clone, Copy, Debug)]
pub struct Annotations {
    /// A range is about to be returned to whoever asked for it.
    pub allocated: fn(AllocationEvent),
    /// A range came back, and nobody else can have it yet.
    pub freed: fn(AllocationEvent),
}

/// A range that changes hands.
#[derive(Clone, Copy, Debug)]
pub struct AllocationEvent {
    /// A number for the allocator, unique in the process: one allocator hands out a byte to one
    /// owner at a time.
    pub owner: u64,
    /// The allocator's name, for reports.
    pub name: &'static str,
    /// Where the range starts.
    pub pointer: CuDevicePtr,
    /// Its length in bytes, as asked for.
    pub bytes: usize,
    /// The stream in whose order it changes hands; `None` if it is free for all streams to use, or
    /// no longer used by any.
    pub stream: Option<CuStream>,
}
