//! Options, statistics, locations and reserved addresses of
//! [`VirtualMemoryResource`](super::VirtualMemoryResource) and
//! [`HostVirtualMemoryResource`](super::HostVirtualMemoryResource).

pub use rmm_resources::{
    Location, ReservedAddresses, VirtualMemoryResourceBuilder, VirtualMemoryStatistics,
};
