//! `rmm serve`.

#[cfg(not(target_os = "linux"))]
use super::BAD_INPUT;
use super::Ended;
use crate::args::ServeArgs;

#[cfg(target_os = "linux")]
#[path = "serve/linux.rs"]
mod linux;
#[cfg(target_os = "linux")]
#[path = "serve/signals.rs"]
mod signals;
#[cfg(target_os = "linux")]
#[path = "serve/threads.rs"]
mod threads;

/// `rmm serve`. It prints when it serves.
#[cfg(target_os = "linux")]
pub fn serve(args: &ServeArgs) -> Ended {
    linux::serve(args)
}

/// `rmm serve`.
#[cfg(not(target_os = "linux"))]
pub fn serve(_: &ServeArgs) -> Ended {
    Ended::failed(BAD_INPUT, "memory can be served on Linux only".to_owned())
}
