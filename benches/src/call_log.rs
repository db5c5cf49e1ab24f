//! Whether our log of a program is RMM's log of it.
//!
//! The program is made twice: here through our logging adaptor, in `peers/call-log.cpp` through RMM's.

mod compare;
mod program;

pub use compare::{Matched, Mismatch, compare};
pub use program::write;
