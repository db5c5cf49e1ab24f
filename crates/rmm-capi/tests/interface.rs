//! The functions as C calls them, on the software device.

#[path = "interface/callbacks.rs"]
mod callbacks;
#[path = "interface/common.rs"]
mod common;
#[path = "interface/failures.rs"]
mod failures;
#[path = "interface/resources.rs"]
mod resources;
#[path = "interface/streams.rs"]
mod streams;
