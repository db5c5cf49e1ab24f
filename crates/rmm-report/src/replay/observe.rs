//! Observed replay: live and reserved bytes after each event, and the heap map at the peak.

use std::collections::HashMap;

use rmm_core::{Error, StreamId};

use super::player::Player;
use super::subject::ReplaySubject;
use crate::results::{BlockState, HeapBlock, Sample};
use crate::trace::{ALIGNMENT, Action, Trace};

/// Events between two reports of progress.
const CHUNK: usize = 1 << 14;

/// Events between two samples for the chart, where the resource counts its peak itself.
const SAMPLED: usize = 16;

/// The observations.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) peak_live: u64,
    pub(super) peak_reserved: u64,
    /// As the pool counts it, if one holds all memory.
    pub(super) pool_peak_live: Option<u64>,
    /// Before the first event.
    pub(super) initial_reserved: u64,
    pub(super) timeline: Vec<Sample>,
    pub(super) heap_map: Vec<HeapBlock>,
    pub(super) failures: u64,
    pub(super) first_failure: Option<String>,
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
    let others = subject.used_by_others()?;
    observed.initial_reserved = subject.reserved(others, 0)?;
    let sample_every = if subject.peak_reserved()?.is_some() { SAMPLED } else { 1 };
    let mut owners: HashMap<u64, u32> = HashMap::new();
    let mut live = begin(trace, player, subject, &mut observed, &mut owners);
    observed.peak_live = live;
    for (index, event) in trace.events.iter().enumerate() {
        let freed = match event.action {
            Action::Free { block, .. } => player.address(block),
            Action::Allocate { .. } | Action::AllocateFailure { .. } => None,
        };
        match player.step(&subject.resource, event) {
            Ok(()) => match event.action {
                Action::Allocate { block, size } => {
                    live += size.next_multiple_of(ALIGNMENT);
                    if let Some(address) = player.address(block).filter(|address| address.0 != 0) {
                        owners.insert(address.0, event.stream);
                    }
                }
                Action::Free { size, .. } if freed.is_some() => {
                    live -= size.next_multiple_of(ALIGNMENT);
                }
                Action::Free { .. } | Action::AllocateFailure { .. } => {}
            },
            Err(error) => {
                observed.failures += 1;
                observed
                    .first_failure
                    .get_or_insert_with(|| format!("line {}: {error}", event.line));
            }
        }
        observed.peak_live = observed.peak_live.max(live);
        let is_peak = index == trace.peak_event;
        if is_peak || index.is_multiple_of(sample_every) {
            let (event, reserved_bytes) = (index as u64, subject.reserved(others, live)?);
            observed.peak_reserved = observed.peak_reserved.max(reserved_bytes);
            observed.timeline.push(Sample { event, live_bytes: live, reserved_bytes });
        }
        if is_peak {
            observed.heap_map = heap_map(player, subject, &owners);
        }
        if (index + 1) % CHUNK == 0 {
            progress(CHUNK as u64);
        }
    }
    progress((trace.events.len() % CHUNK) as u64);
    observed.peak_reserved = subject.peak_reserved()?.unwrap_or(observed.peak_reserved);
    observed.pool_peak_live = subject.counted().map(|pool| pool.peak_live_bytes);
    Ok(observed)
}

/// Allocates what was live before the first event; returns its bytes.
fn begin(
    trace: &Trace,
    player: &Player<'_>,
    subject: &ReplaySubject,
    observed: &mut Observed,
    owners: &mut HashMap<u64, u32>,
) -> u64 {
    let failures = player.begin(&subject.resource);
    observed.failures = failures.count;
    observed.first_failure = failures.first_failure();
    let mut live = 0;
    for before in &trace.before {
        if let Some(address) = player.address(before.block) {
            live += before.size.next_multiple_of(ALIGNMENT);
            owners.insert(address.0, before.stream);
        }
    }
    live
}

/// The resource's blocks, with the streams by their numbers in the trace.
fn heap_map(
    player: &Player<'_>,
    subject: &ReplaySubject,
    owners: &HashMap<u64, u32>,
) -> Vec<HeapBlock> {
    let number_of: HashMap<StreamId, u32> =
        (0..).zip(player.streams()).map(|(number, stream)| (stream.id(), number)).collect();
    let block = |block: rmm_adaptors::PoolBlock| {
        let address = block.segment_base.0 + block.offset;
        // What a resource above the pool cuts up has no stream.
        let stream = match block.owner {
            Some(owner) => number_of.get(&owner).copied(),
            None => owners.get(&address).copied(),
        };
        HeapBlock {
            segment: u32::try_from(block.segment).unwrap_or(u32::MAX),
            offset: block.offset,
            size: block.size,
            state: if block.is_live { BlockState::Live } else { BlockState::Free },
            stream: stream.unwrap_or(HeapBlock::SEVERAL_STREAMS),
        }
    };
    subject.blocks().into_iter().map(block).collect()
}

#[cfg(test)]
#[path = "observe/tests.rs"]
mod tests;
