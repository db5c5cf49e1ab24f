//! The memory kinds, capabilities and views of the CUDA `<memory_resource>` proposal, for code that
//! is written against them.

pub use rmm_core::{
    AnyContext, HasMemoryKind, MemoryCaps, MemoryKind, MemoryResource, ResourceView, StreamContext,
};
