//! Events that libraries report to a checker that stands in for the driver.

use crate::{CuDevicePtr, CuStream};

/// Functions of a checker, in [`Driver::annotations`](crate::Driver::annotations).
///
/// A suballocator splits one driver allocation into many ranges, which the driver cannot see. It
/// reports each range here, so that a checker can treat it as an allocation, as the client requests
/// of Valgrind and `AddressSanitizer` do. Names of streams and of memory are for its reports, as
/// those of NVTX are for a profiler.
#[derive(Clone, Copy, Debug)]
pub struct Annotations {
    /// A range is about to be returned to the caller.
    pub allocated: fn(AllocationEvent),
    /// A range was freed, and cannot be allocated again yet.
    pub freed: fn(AllocationEvent),
    /// The program named a stream, which exists during the call (`nvtxNameCuStreamA`).
    pub stream_named: fn(CuStream, &str),
    /// The program named so many bytes of memory, or they have no name any more. Memory that is
    /// freed or allocated again loses its name by itself.
    pub memory_named: fn(CuDevicePtr, usize, Option<&str>),
    /// An allocator is about to copy, unmap and map so many bytes of its memory, with the blocks
    /// that are allocated there (`true`), or it is done and the blocks are as before (`false`).
    pub suspended: fn(CuDevicePtr, usize, bool),
}

/// A range that is allocated or freed.
#[derive(Clone, Copy, Debug)]
pub struct AllocationEvent {
    /// A number for the allocator, unique in the process. One allocator does not allocate a byte
    /// twice at a time; layered allocators do, once each.
    pub owner: u64,
    /// The allocator's name, for reports.
    pub name: &'static str,
    /// Where the range starts.
    pub pointer: CuDevicePtr,
    /// Its length in bytes, as requested.
    pub bytes: usize,
    /// The stream in whose order it is allocated or freed; `None` if all streams may use it on
    /// return, or all uses of it have completed.
    pub stream: Option<CuStream>,
}
