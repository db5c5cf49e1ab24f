//! A replay that ends at its first failure: whether a trace runs, and what that takes.

use rmm_core::{AnyResource, Device, Error};

use super::device::{ReplayDevice, Work};
use super::options::ReplayOptions;
use super::player::Player;
use super::subject::ReplaySubject;
use crate::trace::Trace;

/// What happened in a replay that ends at its first failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Why it ended before the trace did: the line of the event and its error, or the error of the
    /// resource that could not be made.
    pub failure: Option<String>,
    /// The most bytes that the resource held, if it counts them.
    pub peak_reserved_bytes: Option<u64>,
    /// How often the resource made one stream wait for another, or the calling thread for the
    /// device.
    pub waits: u64,
    /// Driver calls, where they are counted: of the resource, its making and its end.
    pub driver_calls: Option<u64>,
}

/// Replays a trace as often as `options` say, or up to the first event that fails. With `work`,
/// every block is used as in [`replay_with_work`](super::replay_with_work). The resource is gone
/// when this returns.
///
/// # Errors
/// If the streams cannot be made, or the device reports a failure of the work.
pub fn attempt(
    device: &impl ReplayDevice,
    trace: &Trace,
    options: ReplayOptions,
    work: Option<&dyn Work>,
    make: impl FnOnce() -> Result<AnyResource, Error>,
) -> Result<Attempt, Error> {
    let mut player = Player::new(trace, options)?;
    if let Some(work) = work {
        player = player.with_work(work);
    }
    let calls = device.driver_calls();
    let mut attempt = Attempt::default();
    match make() {
        Ok(resource) => {
            let subject = ReplaySubject::new(resource);
            for _ in 0..options.repeat {
                attempt.failure = first_failure(trace, &player, &subject);
                player.free_leftovers(&subject.resource);
                Device::synchronize_current()?;
                if attempt.failure.is_some() {
                    break;
                }
            }
            attempt.waits = subject.waits();
            attempt.peak_reserved_bytes = subject.peak_reserved()?;
        }
        Err(error) => attempt.failure = Some(error.to_string()),
    }
    attempt.driver_calls = device.driver_calls().zip(calls).map(|(after, before)| after - before);
    Ok(attempt)
}

fn first_failure(trace: &Trace, player: &Player<'_>, subject: &ReplaySubject) -> Option<String> {
    let before = player.begin(&subject.resource).first_failure();
    if before.is_some() {
        return before;
    }
    trace.events.iter().find_map(|event| {
        let error = player.step(&subject.resource, event).err()?;
        Some(format!("line {}: {error}", event.line))
    })
}
