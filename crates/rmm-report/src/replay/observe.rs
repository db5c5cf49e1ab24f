//! Observed replay: live and reserved bytes after each event, and the heap map at the peak.

use std::collections::HashMap;

use rmm_core::{Error, StreamId};

use super::player::Player;
use super::subject::Subject;
use crate::results::{BlockState, HeapBlock, Sample};
use crate::trace::{ALIGNMENT, Action, Trace};

/// Events between two reports of progress.
const CHUNK: usize = 1 << 14;

/// The observations.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) peak_live: u64,
    pub(super) peak_reserved: u64,
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
    subject: &Subject,
    progress: &dyn Fn(u64),
) -> Result<Observed, Error> {
    let observed = observe_events(trace, player, subject, progress);
    player.free_leftovers(&subject.resource);
    observed
}

fn observe_events(
    trace: &Trace,
    player: &Player<'_>,
    subject: &Subject,
    progress: &dyn Fn(u64),
) -> Result<Observed, Error> {
    let mut observed = Observed::default();
    let mut live = 0;
    let (others, sample_every) = (subject.reserved_by_others()?, subject.sample_every());
    observed.initial_reserved = subject.reserved()?.saturating_sub(others);
    let mut owners: HashMap<u64, u32> = HashMap::new();
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
        let at_peak = index == trace.peak_event;
        if at_peak || (index as u64).is_multiple_of(sample_every) {
            let reserved = subject.reserved()?.saturating_sub(others);
            observed.peak_reserved = observed.peak_reserved.max(reserved);
            observed.timeline.push(Sample {
                event: index as u64,
                live_bytes: live,
                reserved_bytes: reserved,
            });
        }
        if at_peak {
            observed.heap_map = heap_map(player, subject, &owners);
        }
        if (index + 1) % CHUNK == 0 {
            progress(CHUNK as u64);
        }
    }
    progress((trace.events.len() % CHUNK) as u64);
    observed.peak_reserved = subject.peak_reserved()?.unwrap_or(observed.peak_reserved);
    Ok(observed)
}

/// The resource's blocks, with the streams by their numbers in the trace.
fn heap_map(player: &Player<'_>, subject: &Subject, owners: &HashMap<u64, u32>) -> Vec<HeapBlock> {
    let number_of: HashMap<StreamId, u32> =
        (0..).zip(player.streams()).map(|(number, stream)| (stream.id(), number)).collect();
    let block = |block: rmm_adaptors::PoolBlock| {
        let address = block.segment_base.0 + block.offset;
        let stream = match block.owner {
            Some(owner) => number_of.get(&owner).copied(),
            None => owners.get(&address).copied(),
        };
        HeapBlock {
            segment: u32::try_from(block.segment).unwrap_or(u32::MAX),
            offset: block.offset,
            size: block.size,
            state: if block.is_live { BlockState::Live } else { BlockState::Free },
            stream: stream.unwrap_or(0),
        }
    };
    subject.blocks().into_iter().map(block).collect()
}
