//! When threads use more streams than there are slots, caches cost more than they gain: a block
//! that is freed on one of hundreds of streams is seldom wanted on the same stream again, and while
//! it is cached no other stream gets it. Then calls pass the caches by for a while.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Misses of threads whose slots are all taken by other streams of theirs, after which the hits are
/// compared with them.
const WINDOW: u32 = 128;

/// With fewer hits for each such miss, the caches are passed by.
const WORTHWHILE_HITS: u64 = 8;

/// How many calls pass the caches by, before these are tried again.
const PASSES: u32 = 1 << 14;

/// All of it happens with the pool's lock held: a pass begins with a flush of all caches, after
/// which no thread finds one, and while it goes on none is made.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Calls that will still pass the caches by.
    passes: AtomicU32,
    misses: AtomicU32,
    /// The hits of all caches when the window began.
    hits: AtomicU64,
}

impl Crowd {
    /// Whether calls pass the caches by. Counts this one.
    #[inline]
    pub(super) fn pass(&self) -> bool {
        let passes = self.passes.load(Ordering::Relaxed);
        self.passes.store(passes.saturating_sub(1), Ordering::Relaxed);
        passes > 0
    }

    /// Notes a miss of a thread whose slots are taken by other streams of its own. `hits` are those
    /// of all caches so far.
    #[cold]
    pub(super) fn note(&self, hits: impl FnOnce() -> u64) {
        let misses = self.misses.load(Ordering::Relaxed) + 1;
        self.misses.store(misses % WINDOW, Ordering::Relaxed);
        if misses == WINDOW {
            let hits = hits();
            let gained = hits.wrapping_sub(self.hits.swap(hits, Ordering::Relaxed));
            if gained < u64::from(WINDOW) * WORTHWHILE_HITS {
                self.passes.store(PASSES, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_that_serve_few_calls_are_passed_by_for_a_while() {
        let crowd = Crowd::default();
        (1..WINDOW).for_each(|_| crowd.note(|| unreachable!("the window is not over")));
        assert!(!crowd.pass());
        crowd.note(|| 100);
        assert_eq!((0..2 * PASSES).filter(|_| crowd.pass()).count(), PASSES as usize);
    }

    #[test]
    fn caches_that_serve_many_calls_are_used() {
        let crowd = Crowd::default();
        for round in 1..=3 {
            (0..WINDOW).for_each(|_| crowd.note(|| round * u64::from(WINDOW) * WORTHWHILE_HITS));
        }
        assert!(!crowd.pass());
    }
}
