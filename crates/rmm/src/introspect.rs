//! Introspection: what a stack of resources consists of, and what each reports.

pub use rmm_core::{Description, Introspect, Metric, Stack};
