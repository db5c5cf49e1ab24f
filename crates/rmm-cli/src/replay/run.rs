//! One timed run of a trace.

use rmm_core::Error;

use super::player::{Outcome, Player};
use super::subject::Subject;
use crate::args::ThreadMode;
use crate::device::OpenDevice;

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How often, the first time on a fresh resource.
    pub repeat: u32,
    /// Whether recorded threads become threads.
    pub threads: Option<ThreadMode>,
}

/// Makes all calls of the trace once.
pub(super) fn run(
    device: &OpenDevice,
    player: &Player<'_>,
    subject: &Subject,
    options: Options,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, Error> {
    match options.threads {
        None => Ok(player.run(&subject.resource, progress)),
        Some(ThreadMode::AsRecorded) => {
            player.run_threads(&subject.resource, &device.handle(), progress)
        }
    }
}
