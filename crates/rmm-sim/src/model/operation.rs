//! What an access does to memory.
#![forbid(unsafe_code)]

/// What an access does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// Reads it.
    Read,
    /// Writes it, and may read it.
    Write,
    /// Reads and writes it atomically, in any order with others that do.
    Update,
    /// Makes it somebody's: an allocation.
    HandOut,
    /// Ends its use: a free.
    TakeBack,
}
