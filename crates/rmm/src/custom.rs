//! For authors of memory resources and adaptors: what an implementation needs beside [`Resource`]
//! and [`SyncResource`].
//!
//! The example `custom_resource` writes a resource.

pub use rmm_core::{
    Annotator, CUDA_ALLOCATION_ALIGNMENT, Claims, ExtendableResource, HOST_ALLOCATION_ALIGNMENT,
    Resource, RetiringStream, StreamLifetime, StreamWatcher, SyncResource, align_down, align_up,
    format_bytes, is_aligned, is_pointer_aligned, is_supported_alignment,
    is_supported_base_resource_alignment,
};
