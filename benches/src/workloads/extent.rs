//! The amount of work: a full run, or a quick one that only shows that it works.

/// How much is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All of it: five repetitions after one that is not counted.
    Full,
    /// Just enough to see that everything runs; the figures say nothing.
    Quick,
}

impl Extent {
    pub(super) fn scaled(self, count: usize) -> usize {
        match self {
            Self::Full => count,
            Self::Quick => (count / 50).max(20),
        }
    }

    pub(super) fn repetitions(self) -> usize {
        if self == Self::Full { 5 } else { 1 }
    }
}
