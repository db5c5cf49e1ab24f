//! One timed run of a trace.

use rmm_core::Error;

use super::device::ReplayDevice;
use super::player::{Outcome, Player};
use super::subject::ReplaySubject;

/// How recorded threads become threads of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadMode {
    /// One thread for each recorded thread, taking turns in the recorded order
    AsRecorded,
}

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// How often, the first time on a fresh resource.
    pub repeat: u32,
    /// Whether recorded threads become threads.
    pub threads: Option<ThreadMode>,
    /// Whether what was recorded on the default stream is replayed on the legacy default stream.
    pub legacy_stream: bool,
}

/// Once, on one thread and streams of its own.
impl Default for ReplayOptions {
    fn default() -> Self {
        Self { repeat: 1, threads: None, legacy_stream: false }
    }
}

/// Makes all calls of the trace once.
pub(super) fn run(
    device: &impl ReplayDevice,
    player: &Player<'_>,
    subject: &ReplaySubject,
    options: ReplayOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, Error> {
    match options.threads {
        None => Ok(player.run(&subject.resource, progress)),
        Some(ThreadMode::AsRecorded) => player.run_threads(&subject.resource, device, progress),
    }
}
