//! What more memory saves: waits and driver calls of each configuration.

use super::answer::{Point, Tuning};
use super::error::TuneError;
use super::laboratory::Laboratory;
use super::memory::PAGE;
use super::parallel;
use super::proof::figures;
use super::trials::Trials;

/// Sizes that are tried, in percent of the smallest memory of all.
const PERCENT: [u64; 7] = [102, 105, 110, 125, 150, 200, 300];

/// Fills in the curves.
pub(super) fn draw<L: Laboratory>(
    trials: &Trials<'_, L>,
    tuning: &mut Tuning,
) -> Result<(), TuneError> {
    let smallest = tuning.configurations.iter().filter_map(|result| result.memory_bytes).min();
    let Some(smallest) = smallest else { return Ok(()) };
    let curves = parallel::map(trials.laboratory.threads(), &trials.indices(), |&index| {
        let curve = match tuning.configurations[index].memory_bytes {
            Some(own) => curve(trials, index, own, smallest),
            None => Ok(Vec::new()),
        };
        trials.step(trials.configurations[index].name());
        curve
    })?;
    for (result, curve) in tuning.configurations.iter_mut().zip(curves) {
        result.curve = curve;
    }
    Ok(())
}

fn curve<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    own: u64,
    smallest: u64,
) -> Result<Vec<Point>, TuneError> {
    let more = PERCENT.map(|percent| (smallest / 100 * percent).next_multiple_of(PAGE));
    let sizes = std::iter::once(own).chain(more.into_iter().filter(|&size| size > own));
    let mut curve = Vec::new();
    for memory_bytes in sizes {
        // More memory does not always fit.
        if trials.runs(index, memory_bytes, trials.laboratory.paces())? {
            curve.push(figures(trials, index, memory_bytes)?);
        }
    }
    Ok(curve)
}
