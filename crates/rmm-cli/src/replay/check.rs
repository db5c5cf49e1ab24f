//! Checked replay: every block is used, and the software device reports uses that are not ordered.

use rmm_core::{AnyResource, Device, Error};
use rmm_sim::Violation;

use super::player::Player;
use super::run::{Options, run};
use super::subject::Subject;
use crate::args::ReplayResource;
use crate::device::OpenDevice;
use crate::trace::Trace;

/// The result of a checked replay.
#[derive(Debug)]
#[non_exhaustive]
pub struct Checked {
    /// How many events were replayed in one repeat.
    pub events: u64,
    /// How many of them failed, in the repeat in which the most did.
    pub failures: u64,
    /// The error of the first failure, with its line in the trace.
    pub first_failure: Option<String>,
    /// How often the resource made one stream wait for another, if it counts that.
    pub stream_waits: u64,
    /// Uses, allocations and frees that are not ordered after an earlier use; a machine keeps the
    /// first thousand.
    pub violations: Vec<Violation>,
}

/// Replays a trace against one resource, with work on every block: on its stream once it is
/// allocated, and on the stream that frees it just before. Where that is another stream, it is made
/// to wait for the first, as a right program does.
///
/// `device` comes from [`OpenDevice::checked`]. `progress` is called with the number of events done
/// since its last call; each repeat does as many as the trace has.
///
/// # Errors
/// As [`replay`](super::replay()), and if the device checks nothing.
pub fn check(
    device: &OpenDevice,
    trace: &Trace,
    resource: &ReplayResource,
    options: Options,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Checked, Error> {
    check_on(device, trace, options, progress, || resource.build())
}

fn check_on(
    device: &OpenDevice,
    trace: &Trace,
    options: Options,
    progress: &(dyn Fn(u64) + Sync),
    make: impl FnOnce() -> Result<AnyResource, Error>,
) -> Result<Checked, Error> {
    let machine = device.machine().ok_or_else(|| {
        Error::invalid_argument("check", "only the software device checks the order of uses")
    })?;
    let player = Player::new(trace)?.with_work(machine);
    let subject = Subject::new(make()?);
    let mut checked = Checked {
        events: trace.events.len() as u64,
        failures: 0,
        first_failure: None,
        stream_waits: 0,
        violations: vec![],
    };
    for _ in 0..options.repeat {
        let outcome = run(device, &player, &subject, options, progress)?;
        player.free_leftovers(&subject.resource);
        Device::synchronize_current()?;
        checked.failures = checked.failures.max(outcome.failures);
        checked.first_failure = checked.first_failure.or(outcome.first_failure);
    }
    checked.stream_waits = subject.stream_waits();
    // Its memory goes back to the driver: that has to be in order, too.
    drop(subject);
    machine.run_all();
    checked.violations = machine.violations();
    Ok(checked)
}

#[cfg(test)]
#[path = "check/tests.rs"]
mod tests;
