//! Options and statistics of [`VirtualMemoryResource`](super::VirtualMemoryResource).

pub use rmm_resources::{VirtualMemoryResourceBuilder, VirtualMemoryStatistics};
