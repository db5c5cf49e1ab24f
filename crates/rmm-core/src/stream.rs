//! CUDA streams and their identity.
//!
//! A stream is identified by a [`StreamId`], which is unique in the process. The driver reuses the
//! handle of a destroyed stream, so a handle says where to enqueue, not which stream it is.

mod events;
mod id;
mod owned;
mod priority;
mod reference;
mod table;

pub use id::StreamId;
pub use owned::{
    CudaStream, RetiringStream, StreamFlags, StreamKind, StreamLifetime, StreamWatcher, WeakStream,
};
pub use priority::stream_priority_range;
pub use reference::StreamRef;
#[doc(hidden)]
pub use table::AnnouncedStream;
