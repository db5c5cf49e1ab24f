//! The functions as C calls them, on the software device.

/// Calls functions of C.
macro_rules! c {
    ($($call:tt)*) => {{
        // SAFETY: the tests pass what the crate's contract asks for: resources, streams and memory
        // that they made before and did not release yet.
        unsafe { $($call)* }
    }};
}

#[path = "interface/callbacks.rs"]
mod callbacks;
#[path = "interface/classes.rs"]
mod classes;
#[path = "interface/common.rs"]
mod common;
#[path = "interface/elastic.rs"]
mod elastic;
#[path = "interface/failures.rs"]
mod failures;
#[path = "interface/held.rs"]
mod held;
#[path = "interface/lease.rs"]
mod lease;
#[path = "interface/logs.rs"]
mod logs;
#[path = "interface/resources.rs"]
mod resources;
#[path = "interface/sharing.rs"]
mod sharing;
#[path = "interface/streams.rs"]
mod streams;
