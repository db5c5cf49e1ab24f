//! Observed replay: what is live and reserved after each event, and where each block is.

use rmm_core::{Error, format_bytes};

use super::player::Player;
use super::recording::Recording;
use super::subject::{Meter, ReplaySubject};
use crate::page::{View, ViewLimit};
use crate::trace::{ALIGNMENT, Action, Trace};

/// Events between two reports of progress.
const CHUNK: usize = 1 << 14;

/// The observations.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) peak_live: u64,
    pub(super) peak_reserved: u64,
    /// As the pool counts it, if one holds all memory.
    pub(super) pool_peak_live: Option<u64>,
    /// Before the first event.
    pub(super) initial_reserved: u64,
    pub(super) failures: u64,
    pub(super) first_failure: Option<String>,
    /// What happened, for the page.
    pub(super) view: View,
}

/// Replays once with observation. Everything is freed afterwards, also after an error.
pub(super) fn observe(
    trace: &Trace,
    player: &Player<'_>,
    subject: &ReplaySubject,
    progress: &dyn Fn(u64),
) -> Result<Observed, Error> {
    let observed = observe_events(trace, player, subject, progress);
    player.free_leftovers(&subject.resource);
    observed
}

fn observe_events(
    trace: &Trace,
    player: &Player<'_>,
    subject: &ReplaySubject,
    progress: &dyn Fn(u64),
) -> Result<Observed, Error> {
    let mut observed = Observed::default();
    let meter = Meter::of(subject)?;
    observed.initial_reserved = meter.reserved(0)?;
    let mut recording = Recording::of(trace, player.stream_ids());
    let mut live = begin(trace, player, subject, &mut observed, &mut recording);
    observed.peak_live = live;
    observed.peak_reserved = meter.reserved(live)?;
    recording.note(0, observed.peak_reserved, &meter);
    for (index, event) in trace.events.iter().enumerate() {
        let was_live = match event.action {
            Action::Free { block, .. } => player.address(block).is_some(),
            Action::Allocate { .. } | Action::AllocateFailure { .. } => false,
        };
        match player.step(&subject.resource, event) {
            Ok(()) => match event.action {
                Action::Allocate { block, size } => {
                    live += size.next_multiple_of(ALIGNMENT);
                    if let Some(address) = player.address(block) {
                        recording.allocate(index, block, address);
                    }
                }
                Action::Free { block, size } if was_live => {
                    live -= size.next_multiple_of(ALIGNMENT);
                    recording.free(index, block);
                }
                Action::Free { .. } => {}
                Action::AllocateFailure { .. } => {
                    recording.fail(index, "It failed when it was recorded, too.", None);
                }
            },
            Err(error) => {
                observed.failures += 1;
                let text = error.to_string();
                recording.fail(index, &without_figures(&error, event.action), limit(&error));
                if observed.failures == 1 {
                    recording.count(index + 1, &meter);
                }
                observed
                    .first_failure
                    .get_or_insert_with(|| format!("line {}: {text}", event.line));
            }
        }
        observed.peak_live = observed.peak_live.max(live);
        let reserved = meter.reserved(live)?;
        observed.peak_reserved = observed.peak_reserved.max(reserved);
        if index == trace.peak_event {
            recording.count(index + 1, &meter);
        }
        recording.note(index + 1, reserved, &meter);
        if (index + 1) % CHUNK == 0 {
            progress(CHUNK as u64);
        }
    }
    progress((trace.events.len() % CHUNK) as u64);
    observed.peak_reserved = subject.peak_reserved()?.unwrap_or(observed.peak_reserved);
    observed.pool_peak_live = subject.counted().map(|pool| pool.peak_live_bytes);
    observed.view = recording.into_view();
    Ok(observed)
}

/// The limit that an error is about; without one, what the device has for the resource.
fn limit(error: &Error) -> Option<ViewLimit> {
    let usage = error.usage()?;
    let used = usage.reserved;
    let device = || error.device_usage().map(|usage| used.saturating_add(usage.memory.free));
    let is_device = usage.limit.is_none();
    Some(ViewLimit { most: usage.limit.or_else(device)?, used, is_device })
}

/// An error without its size, its stream and the figures of its pool: a page has them in its own
/// words, with the streams of the log.
fn without_figures(error: &Error, action: Action) -> String {
    if let Some(reason) = error.usage().and_then(|usage| usage.reason) {
        return format!("out of memory: {} could not allocate; {reason}", error.origin());
    }
    let mut text = error.to_string();
    if let Action::Allocate { size, .. } = action {
        let asked = format!(" {} ({size} bytes, alignment {ALIGNMENT})", format_bytes(size));
        text = text.replacen(&asked, "", 1);
    }
    let stream = error.stream().map(|stream| format!(" on stream {stream}"));
    text.replacen(&stream.unwrap_or_default(), "", 1)
}

/// Allocates what was live before the first event; returns its bytes.
fn begin(
    trace: &Trace,
    player: &Player<'_>,
    subject: &ReplaySubject,
    observed: &mut Observed,
    recording: &mut Recording<'_>,
) -> u64 {
    let failures = player.begin(&subject.resource);
    observed.failures = failures.count;
    observed.first_failure = failures.first_failure();
    let mut live = 0;
    for before in &trace.before {
        if let Some(address) = player.address(before.block) {
            live += before.size.next_multiple_of(ALIGNMENT);
            recording.begin(before, address);
        }
    }
    live
}

#[cfg(test)]
#[path = "observe/tests.rs"]
mod tests;
