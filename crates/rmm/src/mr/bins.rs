//! Options of [`BinningMemoryResource`](super::BinningMemoryResource) and
//! [`FixedSizeMemoryResource`](super::FixedSizeMemoryResource).

pub use rmm_adaptors::{BinningMemoryResourceBuilder, FixedSizeMemoryResourceBuilder};
