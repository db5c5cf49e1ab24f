//! Streams, events, contexts and stream capture.

pub use rmm_core::{
    CaptureScope, Context, ContextGuard, CudaEvent, CudaStream, CudaStreamPool, EventFlags,
    EventRef, RelaxedCapture, StreamFlags, StreamId, StreamKind, StreamLifetime, StreamRef,
    TimedEvent, WeakStream, stream_priority_range,
};
