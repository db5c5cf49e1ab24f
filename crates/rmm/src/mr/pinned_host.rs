//! Flags of [`PinnedHostMemoryResource`](super::PinnedHostMemoryResource).

pub use rmm_resources::PinnedFlags;
