//! Tags of [`TaggedResourceAdaptor`](super::TaggedResourceAdaptor), and bytes by tag.

#[cfg(feature = "tracing")]
pub use rmm_adaptors::TagLayer;
pub use rmm_adaptors::{Tag, TagScope, TagUsage};
