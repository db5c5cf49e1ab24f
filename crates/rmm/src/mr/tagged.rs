//! Tags of [`TaggedResourceAdaptor`](super::TaggedResourceAdaptor), and bytes by tag.

pub use rmm_adaptors::{Tag, TagScope, TagUsage};
