//! When queued work runs.
#![forbid(unsafe_code)]

/// When queued work runs. Whatever the schedule, work runs in an order that streams and events allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// At each driver call a small random number of ready items runs, from streams drawn by this seed: the same seed
    /// and the same calls (of one thread) give the same run.
    Seeded(u64),
    /// Work runs within the call that enqueues it.
    Eager,
    /// Nothing runs until something forces it: a synchronisation runs just what it needs, a query that finds its
    /// work unfinished runs at most one item.
    Adversarial,
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
