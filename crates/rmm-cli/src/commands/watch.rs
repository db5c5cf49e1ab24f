//! `rmm watch`.

#[cfg(not(target_os = "linux"))]
use super::BAD_INPUT;
use super::Ended;
use crate::args::WatchArgs;

#[cfg(target_os = "linux")]
#[path = "watch/linux.rs"]
mod linux;
#[cfg(target_os = "linux")]
#[path = "watch/shown.rs"]
mod shown;

/// `rmm watch`. It prints while it runs.
#[cfg(target_os = "linux")]
pub fn watch(args: &WatchArgs) -> Ended {
    linux::watch(args)
}

/// `rmm watch`.
#[cfg(not(target_os = "linux"))]
pub fn watch(_: &WatchArgs) -> Ended {
    Ended::failed(BAD_INPUT, "programs can be watched on Linux only".to_owned())
}
