//! What runs in a given memory.

use super::answer::{ConfigurationResult, Tuning};
use super::error::TuneError;
use super::laboratory::{Laboratory, Pace};
use super::parallel;
use super::proof::{answer, figures};
use super::trials::Trials;

/// Fills in which configurations run in the memory and, as the answer, the one with the fewest
/// waits and driver calls. Those that hold all of the memory come last.
pub(super) fn fit<L: Laboratory>(
    trials: &Trials<'_, L>,
    memory: u64,
    tuning: &mut Tuning,
) -> Result<(), TuneError> {
    let threads = trials.laboratory.threads();
    let results = parallel::map(threads, &trials.indices(), |&index| {
        let result = try_one(trials, index, memory);
        trials.step(trials.configurations[index].name());
        result
    })?;
    let proofs = trials.laboratory.proofs();
    let mut fitting: Vec<usize> = trials
        .indices()
        .into_iter()
        .filter(|&index| results[index].memory_bytes.is_some())
        .collect();
    fitting.sort_by_key(|&index| {
        let result = &results[index];
        (result.holds_all(), result.waits, result.driver_calls, index)
    });
    for index in fitting {
        if trials.runs(index, memory, proofs)? {
            tuning.answer = Some(answer(trials, index, memory)?);
            break;
        }
    }
    tuning.configurations = results;
    Ok(())
}

fn try_one<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    memory: u64,
) -> Result<ConfigurationResult, TuneError> {
    let configuration = &trials.configurations[index];
    let mut result = ConfigurationResult {
        configuration: configuration.name().to_owned(),
        template: configuration.template().to_owned(),
        ..ConfigurationResult::default()
    };
    for &pace in trials.laboratory.paces() {
        let failure = trials.attempt(index, memory, pace)?.failure;
        let fits = failure.is_none().then_some(memory);
        match pace {
            Pace::AtOnce => result.at_once_memory_bytes = fits,
            Pace::WhenWaitedFor => result.when_waited_for_memory_bytes = fits,
            Pace::Mixed(_) | Pace::OfGpu => {}
        }
        result.failure = result.failure.or(failure);
    }
    let point = match result.failure {
        None => Some(figures(trials, index, memory)?),
        Some(_) => None,
    };
    Ok(result.with(point))
}
