//! Every size, since more memory does not always fit better.

use super::error::TuneError;
use super::estimate::{Smallest, estimate_at, halve, lowest};
use super::laboratory::{Laboratory, Pace};
use super::memory::PAGE;
use super::trials::Trials;

/// Events of all replays that try every size: some tens of seconds.
const SCANNED_EVENTS: u64 = 60_000_000;

/// Tries every size from the program's peak up to the estimate, at all paces; where that is too
/// many, sizes some pages apart, and those before the first that is enough by halves.
pub(super) fn scan<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    estimated: &Smallest,
    contenders: usize,
) -> Result<Smallest, TuneError> {
    let paces = trials.laboratory.paces();
    let low = lowest(trials);
    let mut found = Smallest::at(paces);
    let high = match estimated.of_all {
        Some(high) if paces.len() == estimated.of_paces.iter().flatten().count() => high,
        // Not all paces were tried.
        _ => match estimate_at(trials, index, paces)? {
            Some(high) => high,
            None => return Ok(found),
        },
    };
    let replays = (trials.trace.events.len() * paces.len() * contenders) as u64;
    let sizes = (SCANNED_EVENTS / replays.max(1)).clamp(8, 1024);
    let step = ((high - low) / sizes).next_multiple_of(PAGE).max(PAGE);
    let mut memory = low;
    while memory < high && found.of_all.is_none() {
        try_size(trials, index, memory, &mut found)?;
        memory += step;
    }
    if found.of_all.is_none() {
        try_size(trials, index, high, &mut found)?;
    }
    let refine = |enough: Option<u64>, paces: &[Pace]| match enough {
        Some(enough) if enough > low => {
            let range = enough.saturating_sub(step).max(low)..enough;
            halve(trials, index, paces, range, PAGE).map(Some)
        }
        _ => Ok(enough),
    };
    for (pace, smallest) in paces.iter().zip(&mut found.of_paces) {
        *smallest = refine(*smallest, &[*pace])?;
    }
    found.of_all = refine(found.of_all, paces)?;
    Ok(found)
}

fn try_size<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    memory: u64,
    found: &mut Smallest,
) -> Result<(), TuneError> {
    let mut runs_at_all = true;
    for (pace, smallest) in trials.laboratory.paces().iter().zip(&mut found.of_paces) {
        if trials.runs(index, memory, &[*pace])? {
            smallest.get_or_insert(memory);
        } else {
            runs_at_all = false;
        }
    }
    if runs_at_all {
        found.of_all.get_or_insert(memory);
    }
    Ok(())
}
