//! Figures of pools and tags for the crate `metrics`, read when they are scraped.
//!
//! Call [`sample`] before the recorder renders what it has; the names are those of
//! [`rmm_adaptors::metrics`]. Nothing is added to allocations.

pub use rmm_adaptors::metrics::{describe, sample};
