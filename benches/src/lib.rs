//! Parts that the benchmarks share: operation lists, a device, and the timed loops.
//!
//! `benches/README.md` says what each benchmark measures and how to run them.

pub mod adaptors;
pub mod allocators;
mod handoff;
pub mod migrate;
pub mod nothing;
pub mod outcome;
pub mod pin;
pub mod player;
pub mod program;
pub mod protocol;
pub mod report;
pub mod round_trip;
mod rounds;
pub mod rows;
pub mod setup;
pub mod workloads;
