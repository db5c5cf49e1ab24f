//! The frames and messages of V1 of NVIDIA's GPU Memory Service.
//!
//! A frame is the length of its payload, 4 bytes big-endian, then a map of `MessagePack` with the
//! key `type`. A client sends one request and reads one response; the first request is the
//! handshake. A file descriptor travels as `SCM_RIGHTS` with the bytes of the frame that it belongs
//! to.
//!
//! Requests that are not V1's, and that its client never sends, are those of names and of the
//! processes that hold the lock.
//!
//! Nothing here reads or writes: [`FrameReader`] is given bytes and descriptors, and [`encode`]
//! returns bytes.

mod content;
mod frame;
mod message;

pub use content::{Content, MAX_CONTENT, MAX_NAME};
pub use frame::{Frame, FrameError, FrameReader, MAX_FRAME, encode};
pub use message::{AllocationRecord, Granted, Identity, Lock, LockHolder, Message};
