//! The settings of a pool, its lock, and what that protects.

pub(super) mod asleep;
pub(super) mod callbacks;
pub(super) mod checks;
pub(super) mod core;
pub(super) mod host_copy;
pub(super) mod live;
pub(super) mod locking;
pub(super) mod pool_state;
pub(super) mod pressure_callbacks;
pub(super) mod probe;
pub(super) mod segments;
pub(super) mod session;
pub(super) mod sleeping_memory;
pub(super) mod span_table;
pub(super) mod upstream_block;
