//! Figures of the pools of a running program, read when someone asks.
//!
//! Pools are found in the current resource of each device, and by [`register`]. The guide
//! `docs/watching.md` has programs.

pub use rmm_adaptors::monitor::{
    CURRENT, PoolMap, PoolReading, Reading, TagReading, maps, read, register, unregister,
};
