//! Replays a trace against a memory resource: once with observation after each event, then several
//! times for time.

mod attempt;
mod device;
mod observe;
mod options;
mod player;
mod recording;
mod run;
mod subject;
mod worked;

use rmm_core::{Device, Error};

use crate::page::ViewReplay;
use crate::resource::ReplayResource;
use crate::results::{ResourceResult, TraceResult};
use crate::trace::{Action, Event, Trace};
pub use attempt::{Attempt, attempt};
pub use device::{ReplayDevice, Work};
pub use options::{ReplayOptions, ThreadMode};
use player::Player;
pub(crate) use recording::ranges;
use run::run;
pub use subject::ReplaySubject;
pub use worked::{Worked, replay_with_work};

/// Passes over the trace's events that [`replay`] makes, for a progress bar: each of them takes all
/// events.
pub fn passes(options: ReplayOptions) -> u64 {
    u64::from(options.repeat) + 1
}

/// Replays a trace against one resource. `progress` is called with the number of events done since
/// its last call.
///
/// Each recorded stream becomes a non-blocking stream of its own, but for the default stream if
/// [`ReplayOptions::legacy_stream`] says so. Requests that failed when they
/// were recorded are counted and not made again.
///
/// # Errors
/// If the resource or its streams cannot be made. A request that fails is no error here: it is
/// counted.
pub fn replay(
    device: &impl ReplayDevice,
    trace: &Trace,
    resource: &ReplayResource,
    options: ReplayOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<ResourceResult, Error> {
    let observed = {
        let player = Player::new(trace, options)?;
        observe::observe(trace, &player, &ReplaySubject::new(resource.build()?), progress)?
    };

    let player = Player::new(trace, options)?;
    let subject = ReplaySubject::new(resource.build()?);
    let calls = device.driver_calls();
    let waits = subject.stream_waits();
    let cold = run(device, &player, &subject, options, progress)?;
    let driver_calls = device.driver_calls().zip(calls).map(|(after, before)| after - before);
    let stream_waits = subject.stream_waits().zip(waits).map(|(after, before)| after - before);
    let left = player.free_leftovers(&subject.resource);
    // Their frees may be what the log lacks.
    let (leaked_blocks, leaked_bytes) = if trace.ends_early { (0, 0) } else { left };
    let mut warm = Vec::new();
    for _ in 1..options.repeat {
        Device::synchronize_current()?;
        warm.push(run(device, &player, &subject, options, progress)?);
        player.free_leftovers(&subject.resource);
    }
    Device::synchronize_current()?;

    let mut view = observed.view;
    view.resource = Some(resource.to_string());
    let is_model = device.is_software() && subject.is_of_driver_pools();
    if is_model {
        view.reserved = None;
        view.segments.clear();
    }
    let peak_reserved = (!is_model).then_some(observed.peak_reserved);
    view.peak_reserved = peak_reserved;
    let failures = warm.iter().map(|outcome| outcome.failures).fold(cold.failures, u64::max);
    let failures = failures.max(observed.failures);
    let has_failed = |event: &&Event| matches!(event.action, Action::AllocateFailure { .. });
    view.replay = Some(ViewReplay {
        recorded_peak: trace.peak_live_aligned,
        recorded_failures: trace.events.iter().filter(has_failed).count() as u64,
        failures: if observed.failures > 0 { observed.failures } else { failures },
        stream_waits,
        driver_calls,
        joins_pages: subject.joins_pages(),
    });
    let mut warm_nanos: Vec<f64> = warm.iter().map(|outcome| outcome.nanos_per_event).collect();
    warm_nanos.sort_by(f64::total_cmp);
    let first_failure =
        std::iter::once(&cold).chain(&warm).find_map(|outcome| outcome.first_failure.clone());
    Ok(ResourceResult {
        resource: resource.to_string(),
        events: trace.events.len() as u64,
        cold_ns_per_op: cold.nanos_per_event,
        warm_ns_per_op: median(&warm_nanos),
        repeats: options.repeat,
        peak_live_bytes: observed.peak_live,
        peak_reserved_bytes: peak_reserved,
        initial_reserved_bytes: if is_model { 0 } else { observed.initial_reserved },
        reserved_over_live: peak_reserved.map(|reserved| ratio(reserved, observed.peak_live)),
        pool_peak_live_bytes: observed.pool_peak_live,
        has_driver_pool: subject.has_driver_pool(),
        stream_waits,
        driver_calls,
        failures,
        first_failure: first_failure.or(observed.first_failure),
        leaked_blocks,
        leaked_bytes,
        view: Some(view),
    })
}

/// What a trace's results start from.
pub fn trace_result(trace: &Trace) -> TraceResult {
    TraceResult {
        file: trace.path.display().to_string(),
        events: trace.events.len() as u64,
        threads: trace.threads.len() as u64,
        streams: trace.streams.len() as u64,
        peak_live_bytes: trace.peak_live_aligned,
        ends_early: trace.ends_early,
        resources: Vec::new(),
    }
}

/// The middle of sorted values; the mean of the two middle ones if their number is even.
fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(f64::midpoint(lower, upper))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(reserved: u64, live: u64) -> f64 {
    if live == 0 { 1.0 } else { reserved as f64 / live as f64 }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[1.0, 3.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
    }
}
