//! Operations on memory: reads, writes, updates, allocations and frees.
#![forbid(unsafe_code)]

/// What an access does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// Reads it.
    Read,
    /// Writes it, and may read it.
    Write,
    /// Updates it atomically. Updates are not ordered among each other.
    Update,
    /// Allocates it: by the driver, or by an allocator that suballocates the driver's memory.
    Allocate,
    /// Frees it.
    Free,
}
