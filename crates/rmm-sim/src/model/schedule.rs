//! When queued work runs.
#![forbid(unsafe_code)]

use std::fmt;

/// When queued work runs. Whatever the schedule, work runs in an order that streams and events
/// allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Schedule {
    /// Work runs within the call that enqueues it: the device is always ahead of the host.
    Eager,
    /// Nothing runs until something forces it: a synchronisation runs just what it needs, a query
    /// that finds its work unfinished runs at most one item.
    Lazy,
    /// Work runs when it is done by the machine's [clock](crate::Machine::time): what a query
    /// answers follows from what calls and work [cost](crate::Costs).
    Timed,
    /// At each driver call a small random number of ready items runs, from streams drawn by this
    /// seed: the same seed and the same calls (of one thread) give the same run.
    Seeded(u64),
    /// Before each driver call, work runs as this list of choices says: 0 stands for no more work
    /// before the call, `i` for the `i`-th of the streams whose next item is ready, by their ids.
    /// Nothing is chosen where nothing is ready, and after the list's end nothing more is run than
    /// with [`Lazy`](Self::Lazy). This is how [`explore`](crate::explore) tells a run.
    Scripted(&'static [usize]),
}

/// As a program writes it.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scripted(choices) => write!(f, "Schedule::Scripted(&{choices:?})"),
            other => write!(f, "Schedule::{other:?}"),
        }
    }
}

/// What a schedule leaves open is decided here.
#[derive(Clone, Debug)]
pub(crate) enum Choices {
    /// Nothing is decided: the schedule says it all.
    None,
    Drawn(Random),
    Scripted(Script),
}

impl Choices {
    pub(crate) fn of(schedule: Schedule) -> Self {
        match schedule {
            Schedule::Eager | Schedule::Lazy | Schedule::Timed => Self::None,
            Schedule::Seeded(seed) => Self::Drawn(Random::new(seed)),
            Schedule::Scripted(choices) => Self::Scripted(Script::new(choices.to_vec())),
        }
    }
}

/// A list of choices that is followed, and how many there were to choose from at each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    choices: Vec<usize>,
    /// How many there were to choose from, at each choice so far.
    widths: Vec<usize>,
}

impl Script {
    pub(crate) fn new(choices: Vec<usize>) -> Self {
        Self { choices, widths: Vec::new() }
    }

    /// The next choice, below `width`: 0 once the list has ended.
    pub(crate) fn below(&mut self, width: usize) -> usize {
        let at = self.widths.len();
        self.widths.push(width);
        if at == self.choices.len() {
            self.choices.push(0);
        }
        let choice = &mut self.choices[at];
        *choice = (*choice).min(width - 1);
        *choice
    }

    /// The choices that were made, without the zeros at the end: they go without saying.
    pub(crate) fn made(&self) -> &[usize] {
        let made = &self.choices[..self.widths.len()];
        let last = made.iter().rposition(|&choice| choice != 0);
        &made[..last.map_or(0, |last| last + 1)]
    }

    /// The script that differs in the last choice which can still be another: all of them are gone
    /// through, depth first.
    pub(crate) fn next(mut self) -> Option<Self> {
        while let Some(width) = self.widths.pop() {
            self.choices.truncate(self.widths.len() + 1);
            if let Some(choice) = self.choices.pop().map(|choice| choice + 1)
                && choice < width
            {
                self.choices.push(choice);
                return Some(Self::new(self.choices));
            }
        }
        None
    }
}

/// A small deterministic generator (the `SplitMix64` sequence).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound as u64)).unwrap_or(0)
    }

    /// A number in `0.0..1.0`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double")]
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_go_through_all_choices_once() {
        // First one of two, then of three or, after a 1, of two.
        let mut seen = Vec::new();
        let mut next = Some(Script::default());
        while let Some(mut script) = next {
            let first = script.below(2);
            seen.push((first, script.below(if first == 0 { 3 } else { 2 })));
            next = script.next();
        }
        assert_eq!(seen, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]);
    }

    #[test]
    fn what_was_made_is_told_without_the_zeros_at_the_end() {
        let mut script = Script::new(vec![0, 7, 1]);
        assert_eq!(
            [script.below(2), script.below(3), script.below(2), script.below(2)],
            [0, 2, 1, 0]
        );
        assert_eq!(script.made(), [0, 2, 1]);
    }
}
