//! For authors of memory resources and adaptors: what an implementation needs beside [`Resource`]
//! and [`SynchronousResource`].
//!
//! The [crate page](crate#resources) has a complete custom resource. [`adaptor!`](adaptor) writes
//! an adaptor from one method.

pub use rmm_core::{
    Annotator, CUDA_ALLOCATION_ALIGNMENT, ErasableAs, ExtendableResource,
    HOST_ALLOCATION_ALIGNMENT, Order, Query, Resource, StreamOrdered, Structure, Synchronous,
    SynchronousResource, TrimmableResource, adaptor, align_down, align_up, format_bytes,
    is_aligned, is_pointer_aligned, is_supported_alignment, is_supported_base_resource_alignment,
    wait,
};
