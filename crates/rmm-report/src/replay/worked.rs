//! Replay with work on every block, for a device that checks the order of uses.

use rmm_core::{AnyResource, Device, Error};

use super::device::{ReplayDevice, Work};
use super::options::ReplayOptions;
use super::player::Player;
use super::run::run;
use super::subject::ReplaySubject;
use crate::trace::Trace;

/// What happened in a replay with work.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Worked {
    /// How many events failed, in the repeat in which the most did.
    pub failures: u64,
    /// The error of the first failure, with its line in the trace.
    pub first_failure: Option<String>,
    /// How often the resource made one stream wait for another, if it counts that.
    pub stream_waits: u64,
}

/// Replays a trace against a resource, with work on every block: on its stream once it is
/// allocated, and on the stream that frees it just before. Where that is another stream, it is made
/// to wait for the first, as a right program does. The resource is gone when this returns.
///
/// `progress` is called with the number of events done since its last call; each repeat does as
/// many as the trace has.
///
/// # Errors
/// If the resource or its streams cannot be made, or the device reports a failure of the work.
pub fn replay_with_work(
    device: &impl ReplayDevice,
    trace: &Trace,
    options: ReplayOptions,
    progress: &(dyn Fn(u64) + Sync),
    work: &dyn Work,
    make: impl FnOnce() -> Result<AnyResource, Error>,
) -> Result<Worked, Error> {
    let player = Player::new(trace, options)?.with_work(work);
    let subject = ReplaySubject::new(make()?);
    let mut worked = Worked::default();
    for _ in 0..options.repeat {
        let outcome = run(device, &player, &subject, options, progress)?;
        player.free_leftovers(&subject.resource);
        Device::synchronize_current()?;
        worked.failures = worked.failures.max(outcome.failures);
        worked.first_failure = worked.first_failure.or(outcome.first_failure);
    }
    worked.stream_waits = subject.stream_waits().unwrap_or(0);
    Ok(worked)
}
