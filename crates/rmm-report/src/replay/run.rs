//! One timed run of a trace.

use rmm_core::Error;

use super::device::ReplayDevice;
use super::options::{ReplayOptions, ThreadMode};
use super::player::{Outcome, Player};
use super::subject::ReplaySubject;

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
