//! The proof of an answer, and what is known about it.

use super::answer::{Answer, Less, Point};
use super::error::TuneError;
use super::laboratory::{Laboratory, Pace};
use super::memory::PAGE;
use super::trials::Trials;

/// The memory or, if it is not enough at a further pace, the next one that is; and that 2 % less is
/// not. None if twice the memory is not enough.
pub(super) fn prove<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    memory: u64,
) -> Result<Option<Answer>, TuneError> {
    let paces = [trials.laboratory.paces(), trials.laboratory.proofs()].concat();
    let step = (memory / 512).next_multiple_of(PAGE);
    let mut proven = memory;
    let most = memory.saturating_mul(2);
    while !trials.runs(index, proven, &paces)? {
        proven += step;
        if proven > most {
            return Ok(None);
        }
    }
    let mut less = None;
    loop {
        let smaller = two_percent_less(proven);
        if smaller == 0 {
            break;
        }
        match failure(trials, index, smaller, &paces)? {
            Some(failure) => {
                less = Some(Less { memory_bytes: smaller, failure });
                break;
            }
            None => proven = smaller,
        }
    }
    let mut answer = answer(trials, index, proven)?;
    answer.less = less;
    Ok(Some(answer))
}

/// 98 %, in whole pages.
fn two_percent_less(memory: u64) -> u64 {
    let less = u128::from(memory) * 98 / 100;
    u64::try_from(less).unwrap_or(memory) / PAGE * PAGE
}

pub(super) fn failure<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    memory: u64,
    paces: &[Pace],
) -> Result<Option<String>, TuneError> {
    for &pace in paces {
        if let Some(failure) = trials.attempt(index, memory, pace)?.failure {
            return Ok(Some(failure));
        }
    }
    Ok(None)
}

/// What is known about a memory in which the trace runs.
pub(super) fn answer<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    memory: u64,
) -> Result<Answer, TuneError> {
    let Point { waits, driver_calls, .. } = figures(trials, index, memory)?;
    let configuration = &trials.configurations[index];
    Ok(Answer {
        memory_bytes: memory,
        resource: configuration.text(memory),
        configuration: configuration.name().to_owned(),
        waits,
        driver_calls,
        less: None,
    })
}

/// Waits at the last pace, driver calls at the first.
pub(super) fn figures<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    memory_bytes: u64,
) -> Result<Point, TuneError> {
    let paces = trials.laboratory.paces();
    let first = paces.first().copied().unwrap_or(Pace::AtOnce);
    let last = paces.last().copied().unwrap_or(first);
    let first = trials.attempt(index, memory_bytes, first)?;
    let last = trials.attempt(index, memory_bytes, last)?;
    Ok(Point {
        memory_bytes,
        reserved_bytes: first.peak_reserved_bytes.max(last.peak_reserved_bytes),
        waits: last.waits,
        driver_calls: first.driver_calls,
    })
}
