//! Reclaiming in turn: a pool that ran short asks about one stream after the other, before it runs
//! short again.
//!
//! What is freed on a stream is on that stream's list, apart from its free neighbours, until the
//! driver was asked how far the stream is. A request asks when it finds no memory. With several
//! streams that is late: requests have split what there was, and the pool has to grow or to
//! exchange pages. So after a request that did, one of several next ones asks about one other
//! stream, and merges what is complete with idle memory. A pool that makes do with what it has
//! asks nothing.

#![forbid(unsafe_code)]

/// One in this many requests to the heap asks.
const REQUESTS: u32 = 8;

/// How many of them ask after a request that called upstream. An answer costs about a microsecond,
/// and growth, or an exchange, at least 35.
const TURNS: u32 = 256;

/// A turn that found nothing counts as this many: the streams are behind.
const IN_VAIN: u32 = 8;

/// When to ask about a stream next.
#[derive(Debug, Default)]
pub(crate) struct ReclaimTurns {
    left: u32,
    requests: u32,
}

impl ReclaimTurns {
    /// A request has called upstream, in a pool of several streams.
    pub(crate) fn begin(&mut self) {
        self.left = TURNS;
    }

    /// Counts a request; says whether it asks.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.requests = (self.requests + 1) % REQUESTS;
        if self.requests != 0 {
            return false;
        }
        self.left -= 1;
        true
    }

    /// A turn has found nothing.
    pub(crate) fn note_in_vain(&mut self) {
        self.left = self.left.saturating_sub(IN_VAIN - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_eight_requests_asks_until_all_turns_are_over() {
        let mut turns = ReclaimTurns::default();
        assert!(!(0..100).any(|_| turns.is_due()), "no request has called upstream");
        turns.begin();
        let due: Vec<u32> = (1..=10 * REQUESTS * TURNS).filter(|_| turns.is_due()).collect();
        assert_eq!(due.len(), TURNS as usize);
        assert!(due.iter().all(|request| request % REQUESTS == 0));
    }

    #[test]
    fn turns_in_vain_end_sooner() {
        let mut turns = ReclaimTurns::default();
        turns.begin();
        let mut count = 0;
        for _ in 0..REQUESTS * TURNS {
            if turns.is_due() {
                turns.note_in_vain();
                count += 1;
            }
        }
        assert_eq!(count, TURNS / IN_VAIN);
    }
}
