//! What threads share, and what that is built from.

pub(crate) mod alone;
pub(crate) mod backoff;
pub(crate) mod cache_padded;
mod counter;
pub(crate) mod fence;
pub(crate) mod primitives;
mod thread_number;

pub(crate) use counter::Counter;
pub(crate) use thread_number::thread_number;
