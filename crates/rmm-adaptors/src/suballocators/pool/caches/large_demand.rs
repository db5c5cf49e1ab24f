//! Whether large blocks are worth caching: only if programs request the sizes that they have just
//! freed. Otherwise each free evicts a block that was of no use, and each request misses.
//!
//! While they are cached, misses are compared with hits. While they are not, a *ghost list* (as
//! ARC's, Megiddo and Modha 2003) remembers the last sizes that were freed, without the blocks:
//! requests of these sizes would have been hits.

#![forbid(unsafe_code)]

use crate::suballocators::pool::values::units::{GRANULE, ListId};

/// Misses after which the hits are compared with them.
const WINDOW: u32 = 1024;
/// The same for requests while the blocks are not cached.
const GHOST_WINDOW: u32 = 128;
/// With fewer hits than one in this many misses, the blocks are not cached: a hit saves about twice
/// what a request and a free in the heap cost, and a miss adds an eighth of that.
const MISSES_PER_HIT: u32 = 8;
/// Sizes that are remembered: of several streams, each of whose caches holds four.
const GHOSTS: usize = 16;

/// Stands for no size: blocks are not empty.
const NO_GHOST: u32 = 0;

/// What a pool counts of large blocks. Protected by its lock.
#[derive(Debug)]
pub(crate) struct LargeDemand {
    /// Requests in this window that no cache served.
    requests: u32,
    /// The hits of all caches when the window began.
    hits: u32,
    ghost_hits: u32,
    ghosts: [u32; GHOSTS],
    next_ghost: usize,
}

impl LargeDemand {
    pub(crate) const fn new() -> Self {
        Self { requests: 0, hits: 0, ghost_hits: 0, ghosts: [NO_GHOST; GHOSTS], next_ghost: 0 }
    }

    /// What stands for the size and the stream of a block: two of them are seldom equal.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are all that is used")]
    fn ghost_of(list: ListId, size: u64) -> u32 {
        ((size / GRANULE) as u32 ^ list.0.rotate_right(8)).max(NO_GHOST + 1)
    }

    /// Notes a free of a large block that is not cached.
    #[inline]
    pub(crate) fn note_free(&mut self, list: ListId, size: u64) {
        self.ghosts[self.next_ghost] = Self::ghost_of(list, size);
        self.next_ghost = (self.next_ghost + 1) % GHOSTS;
    }

    /// Notes a request for a large block that no cache has served, while they cache such blocks or
    /// not. Returns whether they should from now on. `hits` are those of all caches so far.
    #[inline]
    pub(crate) fn note_request(
        &mut self,
        list: ListId,
        size: u64,
        are_cached: bool,
        hits: impl FnOnce() -> u32,
    ) -> bool {
        self.requests += 1;
        if are_cached {
            return self.requests < WINDOW || self.is_worthwhile(hits());
        }
        let wanted = Self::ghost_of(list, size);
        // Without an early end, so that it becomes a few vector instructions.
        let known = self.ghosts.iter().map(|&ghost| u32::from(ghost == wanted)).sum::<u32>();
        if known > 0 {
            self.note_ghost_hit(wanted);
        }
        self.requests >= GHOST_WINDOW && self.would_be_worthwhile(hits)
    }

    #[cold]
    fn note_ghost_hit(&mut self, wanted: u32) {
        self.ghost_hits += 1;
        if let Some(ghost) = self.ghosts.iter_mut().find(|ghost| **ghost == wanted) {
            *ghost = NO_GHOST;
        }
    }

    /// Ends a window in which the blocks were cached.
    #[cold]
    fn is_worthwhile(&mut self, hits: u32) -> bool {
        let gained = hits.wrapping_sub(std::mem::replace(&mut self.hits, hits));
        self.requests = 0;
        gained >= WINDOW / MISSES_PER_HIT
    }

    /// Ends a window in which they were not.
    #[cold]
    fn would_be_worthwhile(&mut self, hits: impl FnOnce() -> u32) -> bool {
        let is_worthwhile = self.ghost_hits >= GHOST_WINDOW / MISSES_PER_HIT;
        *self = Self { hits: if is_worthwhile { hits() } else { self.hits }, ..Self::new() };
        is_worthwhile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ListId = ListId(1);
    const OTHER: ListId = ListId(2);
    const SIZE: u64 = 2 << 20;

    #[test]
    fn blocks_that_serve_few_requests_are_not_cached() {
        let mut demand = LargeDemand::new();
        let unasked = || unreachable!("the window is not over");
        for _ in 1..WINDOW {
            assert!(demand.note_request(ONE, SIZE, true, unasked));
        }
        let enough = WINDOW / MISSES_PER_HIT;
        assert!(demand.note_request(ONE, SIZE, true, || enough));
        let verdicts: Vec<bool> =
            (0..WINDOW).map(|_| demand.note_request(ONE, SIZE, true, || 2 * enough - 1)).collect();
        assert_eq!(verdicts.iter().position(|cached| !cached), Some(WINDOW as usize - 1));
    }

    #[test]
    fn sizes_that_come_again_are_cached_again() {
        let mut demand = LargeDemand::new();
        let mut requests = 0;
        let mut comes_again = |freed: ListId, step: u64| {
            let request = |_: &u64| {
                demand.note_free(freed, SIZE + requests * GRANULE);
                requests += 1;
                demand.note_request(ONE, SIZE + (requests - 1) * step * GRANULE, false, || 7)
            };
            (1..=1000).find(request)
        };
        assert_eq!(comes_again(OTHER, 1), None, "the sizes of another stream");
        assert_eq!(comes_again(ONE, 2), None, "other sizes");
        let needed = u64::from(GHOST_WINDOW);
        assert!(comes_again(ONE, 1).is_some_and(|calls| calls <= needed));
        assert_eq!(demand.hits, 7, "the next window counts from here");
    }

    #[test]
    fn a_size_that_was_freed_once_is_a_hit_once() {
        let mut demand = LargeDemand::new();
        for _ in 0..4 {
            demand.note_free(ONE, SIZE);
            for _ in 0..GHOST_WINDOW {
                let is_cached = demand.note_request(ONE, SIZE, false, || 0);
                assert!(!is_cached, "one block cannot serve them all");
            }
        }
    }
}
