//! Options and reports of [`ArenaMemoryResource`](super::ArenaMemoryResource).

pub use rmm_adaptors::{ArenaMemoryResourceBuilder, ArenaReport};
