//! The rules that hold between the parts of a machine: what a call may do, what work waits for,
//! when it runs, and which order the checks require.
//!
//! The state is behind one lock; a [`Session`](session::Session) is a thread's hold of it for the
//! length of a driver call.

pub(crate) mod address;
pub(crate) mod admission;
pub(crate) mod alloc;
pub(crate) mod builder;
pub(crate) mod capture;
pub(crate) mod capture_calls;
pub(crate) mod check;
pub(crate) mod contents;
pub(crate) mod context;
pub(crate) mod current;
pub(crate) mod enqueue;
pub(crate) mod failure;
pub(crate) mod kernel_launch;
pub(crate) mod kernel_memory;
pub(crate) mod leak;
pub(crate) mod machine;
pub(crate) mod physical;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod sharing;
pub(crate) mod state;
pub(crate) mod strays;
pub(crate) mod thread;
