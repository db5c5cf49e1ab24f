//! Containers in device memory.
//!
//! * [`DeviceBuffer`] holds bytes.
//! * [`DeviceUVector`] holds elements of one type, not initialised unless asked for.
//!
//! A container belongs to a stream: its memory is allocated, filled and freed in that stream's order. Where a call takes another
//! stream, the two are ordered with an event; with the container's own stream there is nothing to pay.

mod buffer;
mod uvector;

pub use buffer::DeviceBuffer;
pub use uvector::DeviceUVector;
