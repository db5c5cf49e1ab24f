//! Streams, and who they are.
//!
//! A stream is known by a [`StreamId`] that is given once in a process. A driver gives the handle
//! of a destroyed stream to the next one, so a handle says *where* to enqueue, never *who* it is.

mod events;
mod id;
mod owned;
mod priority;
mod reference;

pub use id::StreamId;
pub use owned::{
    CudaStream, RetiringStream, StreamFlags, StreamKind, StreamLifetime, StreamWatcher,
};
pub use priority::stream_priority_range;
pub use reference::StreamRef;
