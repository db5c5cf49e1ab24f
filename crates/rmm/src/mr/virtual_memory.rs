//! Options, statistics and reserved addresses of
//! [`VirtualMemoryResource`](super::VirtualMemoryResource).

pub use rmm_resources::{ReservedAddresses, VirtualMemoryResourceBuilder, VirtualMemoryStatistics};
