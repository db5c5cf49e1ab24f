//! Tests of the adaptors, over a scripted upstream or a real resource.

#[path = "adaptors/aligned.rs"]
mod aligned;
#[path = "adaptors/callback.rs"]
mod callback;
#[path = "adaptors/common.rs"]
mod common;
#[path = "adaptors/debug.rs"]
mod debug;
#[path = "adaptors/failure_callback.rs"]
mod failure_callback;
#[path = "adaptors/fallback.rs"]
mod fallback;
#[path = "adaptors/limiting.rs"]
mod limiting;
#[path = "adaptors/prefetch.rs"]
mod prefetch;
#[path = "adaptors/scripted.rs"]
pub(crate) mod scripted;
#[path = "adaptors/second_thread.rs"]
mod second_thread;
#[path = "adaptors/stacks.rs"]
mod stacks;
#[path = "adaptors/statistics.rs"]
mod statistics;
#[path = "adaptors/tagged.rs"]
mod tagged;
#[path = "adaptors/thread_safe.rs"]
mod thread_safe;
#[path = "adaptors/tracking.rs"]
mod tracking;
