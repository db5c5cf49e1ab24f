//! Counters of [`StatisticsResourceAdaptor`](super::StatisticsResourceAdaptor).

pub use rmm_adaptors::{AllocationCounters, Counter, StatisticsScope};
