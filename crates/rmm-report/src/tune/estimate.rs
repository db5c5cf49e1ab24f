//! A quick estimate of what a configuration needs.

use std::ops::Range;

use super::error::TuneError;
use super::laboratory::{Laboratory, Pace};
use super::memory::PAGE;
use super::trials::Trials;

/// Doublings of a 64th of the program's peak up to the most that is tried, 17 times the peak.
const DOUBLINGS: u32 = 10;

/// With more events, only contenders are tried at the paces after the first.
const MANY_EVENTS: u64 = 300_000;

/// The smallest memory of a configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Smallest {
    /// At each pace, in their order.
    pub(super) of_paces: Vec<Option<u64>>,
    /// At all of them.
    pub(super) of_all: Option<u64>,
}

impl Smallest {
    /// None yet, at any pace.
    pub(super) fn at(paces: &[Pace]) -> Self {
        Self { of_paces: vec![None; paces.len()], of_all: None }
    }

    /// At the first pace.
    pub(super) fn first(&self) -> Option<u64> {
        self.of_paces.first().copied().flatten()
    }
}

/// Whether replays take so long that only contenders are tried at all paces.
pub(super) fn is_long<L: Laboratory>(trials: &Trials<'_, L>) -> bool {
    trials.trace.events.len() as u64 > MANY_EVENTS
}

/// The least that any memory can be.
pub(super) fn lowest<L: Laboratory>(trials: &Trials<'_, L>) -> u64 {
    let peak = trials.trace.peak_live_aligned;
    peak.checked_next_multiple_of(PAGE).unwrap_or(peak)
}

/// The most that is tried.
pub(super) fn most<L: Laboratory>(trials: &Trials<'_, L>) -> u64 {
    grown(lowest(trials), DOUBLINGS)
}

/// What a configuration needs, found by sizes that grow and by halves between: a smaller size may
/// be enough, too.
pub(super) fn estimate<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
) -> Result<Smallest, TuneError> {
    let paces = trials.laboratory.paces();
    let is_long = is_long(trials);
    let mut found = Smallest::at(paces);
    for (pace, smallest) in paces.iter().zip(&mut found.of_paces) {
        *smallest = estimate_at(trials, index, &[*pace])?;
        if is_long || smallest.is_none() {
            break;
        }
    }
    found.of_all = if is_long { found.first() } else { of_all(trials, index, &found)? };
    Ok(found)
}

/// The smallest memory at all paces, from the largest that one of them needs.
fn of_all<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    found: &Smallest,
) -> Result<Option<u64>, TuneError> {
    let Some(each) = found.of_paces.iter().copied().collect::<Option<Vec<u64>>>() else {
        return Ok(None);
    };
    let largest = each.into_iter().max().unwrap_or_default();
    if trials.runs(index, largest, trials.laboratory.paces())? {
        return Ok(Some(largest));
    }
    estimate_from(trials, index, largest, trials.laboratory.paces())
}

pub(super) fn estimate_at<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    paces: &[Pace],
) -> Result<Option<u64>, TuneError> {
    estimate_from(trials, index, lowest(trials), paces)
}

fn estimate_from<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    low: u64,
    paces: &[Pace],
) -> Result<Option<u64>, TuneError> {
    if trials.runs(index, low, paces)? {
        return Ok(Some(low));
    }
    let (mut too_little, mut enough) = (low, None);
    for doubling in 0..=DOUBLINGS {
        let size = grown(low, doubling);
        if trials.runs(index, size, paces)? {
            enough = Some(size);
            break;
        }
        too_little = size;
    }
    let Some(enough) = enough else { return Ok(None) };
    let resolution = (low / 256).next_multiple_of(PAGE);
    halve(trials, index, paces, too_little..enough, resolution).map(Some)
}

/// A size that is enough, in a range whose start is too little and whose end is enough: as near to
/// one that is too little as the resolution says.
pub(super) fn halve<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    paces: &[Pace],
    range: Range<u64>,
    resolution: u64,
) -> Result<u64, TuneError> {
    let Range { start: mut too_little, end: mut enough } = range;
    while enough - too_little > resolution {
        let half = too_little + ((enough - too_little) / 2).next_multiple_of(PAGE);
        if half == enough {
            break;
        }
        if trials.runs(index, half, paces)? {
            enough = half;
        } else {
            too_little = half;
        }
    }
    Ok(enough)
}

/// A 64th more, or a page, doubled so often.
fn grown(low: u64, doublings: u32) -> u64 {
    let more = (low / 64).next_multiple_of(PAGE).max(PAGE);
    low.saturating_add(more.saturating_mul(1 << doublings))
}
