//! Schedules: when queued work runs.
//!
//! The scheduler controls every choice that a device leaves open, as systematic testing of threads
//! does (CHESS, Musuvathi and others 2008; loom; shuttle). Before each driver call it picks among
//! the *ready* items: the first item of each stream, if the points that it waits for are complete.
//!
//! ```text
//! stream a   [copy] [record e] [kernel]      ready: the copy
//! stream b   [wait e] [kernel]               not ready until `record e` has run
//! stream c   [fill]                          ready: the fill
//!
//! script:    1  run the copy    2  run the fill    0  run no more before this call
//! ```
#![forbid(unsafe_code)]

use std::fmt;

/// When queued work runs. Under every schedule, work runs in an order that streams and events
/// allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Schedule {
    /// Work runs within the call that enqueues it: a device that is infinitely fast.
    Eager,
    /// Work runs as late as possible: a synchronisation runs only the work that it waits for, and a
    /// query that returns `NOT_READY` runs at most one item.
    Lazy,
    /// Work is complete when it is by simulated [time](crate::Machine::time): what a query returns
    /// follows from the [costs](crate::Costs) of calls and work.
    Timed,
    /// Before each driver call, a small random number of ready items runs, on randomly chosen
    /// streams. The same seed and the same calls (of one thread) give the same run.
    Seeded(u64),
    /// Before each driver call, work runs by this list of choices: 0 means no more work before the
    /// call, `i` means the next item of the `i`-th stream, by id, of those whose next item is
    /// ready. No choice is consumed where nothing is ready, and after the list's end work runs as
    /// with [`Lazy`](Self::Lazy). [`explore`](crate::explore) reports a failing run as such a list.
    Scripted(&'static [usize]),
}

/// As Rust source.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scripted(choices) => write!(f, "Schedule::Scripted(&{choices:?})"),
            other => write!(f, "Schedule::{other:?}"),
        }
    }
}

/// The source of a schedule's choices.
#[derive(Clone, Debug)]
pub(crate) enum Choices {
    /// The schedule has no choices.
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

/// A list of choices, and the number of alternatives at each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    choices: Vec<usize>,
    /// The number of alternatives at each choice so far.
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

    /// The choices that were made, without trailing zeros, which are the default.
    pub(crate) fn made(&self) -> &[usize] {
        let made = &self.choices[..self.widths.len()];
        let last = made.iter().rposition(|&choice| choice != 0);
        &made[..last.map_or(0, |last| last + 1)]
    }

    /// The next script in depth-first order: it differs in the last choice that has an alternative
    /// left.
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

/// A deterministic random generator: `SplitMix64` (Steele, Lea and Flood, 2014).
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
    fn scripts_enumerate_all_choices_once() {
        // A choice of two, then of three or, after a 1, of two.
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
    fn the_choices_made_have_no_trailing_zeros() {
        let mut script = Script::new(vec![0, 7, 1]);
        assert_eq!(
            [script.below(2), script.below(3), script.below(2), script.below(2)],
            [0, 2, 1, 0]
        );
        assert_eq!(script.made(), [0, 2, 1]);
    }
}
