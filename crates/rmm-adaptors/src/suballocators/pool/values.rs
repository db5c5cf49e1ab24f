//! Policies, limits, statistics and counters: values that know no other part of the pool.

pub(super) mod checkpoint;
pub(super) mod contention;
pub(super) mod exchange;
pub(super) mod growth;
pub(super) mod idle_time;
pub(super) mod limits;
pub(super) mod policy;
pub(super) mod reclaim_turns;
pub(super) mod segment_options;
pub(super) mod sleep_options;
pub(super) mod statistics;
pub(super) mod tide;
pub(super) mod units;
