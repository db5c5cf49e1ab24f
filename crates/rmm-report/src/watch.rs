//! A program that lets itself be watched: `rmm watch PID` shows the figures of its pools, and can
//! ask for a page of their heaps.
//!
//! [`serve`] opens a Unix socket, `PID.sock` in a folder that is the user's alone: `rmm` in
//! `XDG_RUNTIME_DIR`, or else `/tmp/rmm-UID`. One thread answers. It reads what
//! [`monitor`](rmm_adaptors::monitor) finds, only when a watcher asks: allocations never wait for a
//! watcher.
//!
//! ```
//! use rmm_adaptors::{PoolMemoryResource, monitor};
//! use rmm_report::watch;
//! use rmm_resources::CudaMemoryResource;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let _machine = rmm_sim::enter();
//! let _watched = watch::serve()?; // until it is dropped
//! let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?;
//! monitor::register("workers", &pool);
//!
//! let figures = watch::figures(std::process::id())?; // what `rmm watch` does
//! assert_eq!(figures.pools[0].pool, "workers");
//! assert_eq!(figures.pools[0].reserved_bytes, 1 << 20);
//! # Ok(())
//! # }
//! ```
//!
//! # The socket
//!
//! The socket has mode 0600 in a folder of mode 0700, which must be the user's and no link. Both
//! sides ask the kernel who the other one is: the program answers its own user and root, a watcher
//! takes answers of that process alone.
//!
//! A request is a line, `figures` or `page`. The answer is a line, `ok` and the bytes that follow,
//! or `error` and a text; then the program closes the connection. A request is at most 64 bytes,
//! and has to come within a second; the answer has to be read within ten. At most 16 watchers are
//! answered at once, others wait.
//!
//! A child of `fork` serves nothing, unless it calls [`serve`] itself.

mod connection;
mod figures;
mod place;
mod request;
mod server;
mod signals;

use std::io;

pub use figures::{ProgramFigures, WatchedPool, WatchedTag};
pub use request::{figures, page, watched};
pub use server::{Watched, serve};

/// The environment variable that asks a program to let itself be watched: see [`serve_if_asked`].
pub const WATCH_VARIABLE: &str = "RMM_WATCH";

/// Calls [`serve`] if the environment variable `RMM_WATCH` is set, and neither empty nor `0`.
///
/// The Python package does so when it is imported. Other programs call it when they start.
///
/// # Errors
/// Those of [`serve`].
pub fn serve_if_asked() -> io::Result<Option<Watched>> {
    let wanted = std::env::var_os(WATCH_VARIABLE);
    let is_wanted = wanted.is_some_and(|value| !value.is_empty() && value != "0");
    is_wanted.then(serve).transpose()
}
