//! The search for the smallest memory.

use super::answer::{Answer, ConfigurationResult, Tuning};
use super::error::TuneError;
use super::estimate::{Smallest, estimate, is_long, most};
use super::laboratory::{Laboratory, Pace};
use super::parallel;
use super::proof::{answer, failure, figures, prove};
use super::scan::scan;
use super::trials::Trials;

/// Configurations that are tried at every size: the best ones of the estimate.
const CONTENDERS: usize = 3;

/// Fills in what each configuration needs, and the answer: as `least`, if a memory was given.
pub(super) fn search<L: Laboratory>(
    trials: &Trials<'_, L>,
    tuning: &mut Tuning,
) -> Result<(), TuneError> {
    let threads = trials.laboratory.threads();
    let mut found = parallel::map(threads, &trials.indices(), |&index| {
        let found = estimate(trials, index);
        trials.step(trials.configurations[index].name());
        found
    })?;
    let mut contenders = contenders(&found);
    let scanned = parallel::map(threads, &contenders, |&index| {
        scan(trials, index, &found[index], contenders.len())
    })?;
    for (&index, smallest) in contenders.iter().zip(scanned) {
        found[index] = smallest;
    }
    if is_long(trials) {
        // What others need was found at the first pace only.
        for index in trials.indices().into_iter().filter(|index| !contenders.contains(index)) {
            found[index].of_all = None;
        }
    }
    trials.step("every size");

    let mut proven: Option<Answer> = None;
    contenders.sort_by_key(|&index| (found[index].of_all, index));
    for index in contenders {
        // A proof may take more memory than was found, so the next configuration may need less.
        let Some(found_memory) = found[index].of_all else { continue };
        if proven.as_ref().is_some_and(|best| best.memory_bytes <= found_memory) {
            continue;
        }
        let answer = prove(trials, index, found_memory)?;
        found[index].of_all = answer.as_ref().map(|answer| answer.memory_bytes);
        proven = proven.into_iter().chain(answer).min_by_key(|answer| answer.memory_bytes);
    }
    trials.step("the proof");
    tuning.at_once = best_at(trials, &found, Pace::AtOnce)?;
    tuning.when_waited_for = best_at(trials, &found, Pace::WhenWaitedFor)?;
    if tuning.given_memory_bytes.is_some() {
        tuning.least = proven;
    } else {
        tuning.answer = proven;
    }
    tuning.configurations = trials
        .indices()
        .into_iter()
        .map(|index| describe(trials, index, &found[index]))
        .collect::<Result<_, _>>()?;
    Ok(())
}

/// The smallest memory of all configurations at one pace.
fn best_at<L: Laboratory>(
    trials: &Trials<'_, L>,
    found: &[Smallest],
    pace: Pace,
) -> Result<Option<Answer>, TuneError> {
    let paces = trials.laboratory.paces();
    let Some(position) = paces.iter().position(|&known| known == pace) else { return Ok(None) };
    let sizes = found
        .iter()
        .enumerate()
        .filter_map(|(index, found)| Some((found.of_paces[position]?, index)));
    let best = sizes.min();
    best.map(|(memory, index)| answer(trials, index, memory)).transpose()
}

/// The best configurations of the estimate, the best first.
fn contenders(found: &[Smallest]) -> Vec<usize> {
    let mut indices: Vec<usize> =
        (0..found.len()).filter(|&index| found[index].of_all.is_some()).collect();
    indices.sort_by_key(|&index| (found[index].of_all, index));
    indices.truncate(CONTENDERS);
    indices
}

fn describe<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    found: &Smallest,
) -> Result<ConfigurationResult, TuneError> {
    let paces = trials.laboratory.paces();
    let at = |wanted: Pace| {
        let position = paces.iter().position(|&pace| pace == wanted);
        position.and_then(|position| found.of_paces[position])
    };
    let was_tried = found.of_all.is_some() || (is_long(trials) && found.first().is_some());
    let failure = if was_tried { None } else { failure(trials, index, most(trials), paces)? };
    let point = found.of_all.map(|memory| figures(trials, index, memory)).transpose()?;
    let configuration = &trials.configurations[index];
    let result = ConfigurationResult {
        configuration: configuration.name().to_owned(),
        template: configuration.template().to_owned(),
        at_once_memory_bytes: at(Pace::AtOnce),
        when_waited_for_memory_bytes: at(Pace::WhenWaitedFor),
        failure,
        ..ConfigurationResult::default()
    };
    Ok(result.with(point))
}
