//! Clients, on a software device that runs work as late as possible.

/// Calls functions of C.
macro_rules! c {
    ($($call:tt)*) => {{
        // SAFETY: the tests pass what the crate's contract asks for: handles, streams and memory
        // that they made before and did not release yet.
        unsafe { $($call)* }
    }};
}

#[path = "clients/arguments.rs"]
mod arguments;
#[path = "clients/captures.rs"]
mod captures;
#[path = "clients/checkpoints.rs"]
mod checkpoints;
#[path = "clients/failures.rs"]
mod failures;
#[path = "clients/fixtures.rs"]
mod fixtures;
#[path = "clients/legacy.rs"]
mod legacy;
#[path = "clients/model.rs"]
mod model;
#[path = "clients/pending.rs"]
mod pending;
#[path = "clients/shared_pools.rs"]
mod shared_pools;
#[path = "clients/threads.rs"]
mod threads;
#[path = "clients/walks.rs"]
mod walks;
