//! The search for the smallest memory.

use super::answer::{Answer, ConfigurationResult, Less, Point, Tuning};
use super::laboratory::{Laboratory, Pace};
use super::trials::Trials;
use super::{PAGE, TuneError, parallel};

/// The most that is tried is so many doublings of a 64th above the program's peak: 17 times it.
const DOUBLINGS: u32 = 10;

/// Configurations that are tried at every size: the best ones of the estimate.
const CONTENDERS: usize = 3;

/// Events of all replays that try every size: some tens of seconds.
const SCANNED_EVENTS: u64 = 60_000_000;

/// With more events, only contenders are tried at the paces after the first.
const MANY_EVENTS: u64 = 1_000_000;

/// The smallest memory of a configuration.
#[derive(Clone, Debug, Default)]
struct Smallest {
    /// At each pace, in their order.
    of_paces: Vec<Option<u64>>,
    /// At all of them.
    of_all: Option<u64>,
}

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
    let contenders = contenders(&found);
    let scanned = parallel::map(threads, &contenders, |&index| {
        scan(trials, index, &found[index], contenders.len())
    })?;
    for (&index, smallest) in contenders.iter().zip(scanned) {
        found[index] = smallest;
    }
    trials.step("every size");

    let best = contenders.iter().min_by_key(|&&index| (found[index].of_all, index)).copied();
    let mut proven = None;
    if let Some((index, memory)) = best.and_then(|index| Some((index, found[index].of_all?))) {
        proven = prove(trials, index, memory)?;
        found[index].of_all = proven.as_ref().map(|answer| answer.memory_bytes);
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

/// The least that any memory can be.
fn lowest<L: Laboratory>(trials: &Trials<'_, L>) -> u64 {
    trials.trace.peak_live_aligned.next_multiple_of(PAGE)
}

/// What a configuration needs, found by sizes that grow and by halves between: a smaller size may
/// be enough, too.
fn estimate<L: Laboratory>(trials: &Trials<'_, L>, index: usize) -> Result<Smallest, TuneError> {
    let paces = trials.laboratory.paces();
    let is_long = trials.trace.events.len() as u64 > MANY_EVENTS;
    let mut found = Smallest { of_paces: vec![None; paces.len()], of_all: None };
    for (pace, smallest) in paces.iter().zip(&mut found.of_paces) {
        *smallest = estimate_at(trials, index, &[*pace])?;
        if is_long || smallest.is_none() {
            break;
        }
    }
    found.of_all = if is_long { found.of_paces[0] } else { of_all(trials, index, &found)? };
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

fn estimate_at<L: Laboratory>(
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
    let Some(mut enough) = enough else { return Ok(None) };
    let resolution = (low / 256).next_multiple_of(PAGE);
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
    Ok(Some(enough))
}

/// A 64th more, or a page, doubled so often.
fn grown(low: u64, doublings: u32) -> u64 {
    let more = (low / 64).next_multiple_of(PAGE).max(PAGE);
    low.saturating_add(more.saturating_mul(1 << doublings))
}

/// The best configurations of the estimate, the best first.
fn contenders(found: &[Smallest]) -> Vec<usize> {
    let mut indices: Vec<usize> =
        (0..found.len()).filter(|&index| found[index].of_all.is_some()).collect();
    indices.sort_by_key(|&index| (found[index].of_all, index));
    indices.truncate(CONTENDERS);
    indices
}

/// Tries every size from the program's peak up to the estimate, at all paces.
fn scan<L: Laboratory>(
    trials: &Trials<'_, L>,
    index: usize,
    estimated: &Smallest,
    contenders: usize,
) -> Result<Smallest, TuneError> {
    let paces = trials.laboratory.paces();
    let low = lowest(trials);
    let mut found = Smallest { of_paces: vec![None; paces.len()], of_all: None };
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

fn failure<L: Laboratory>(
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
    let failure = match found.of_all {
        Some(_) => None,
        None => failure(trials, index, grown(lowest(trials), DOUBLINGS), paces)?,
    };
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
