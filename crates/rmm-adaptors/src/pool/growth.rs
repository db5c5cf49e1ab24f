//! How much to ask upstream for.

#![forbid(unsafe_code)]

use super::heap::GRANULE;

/// What drivers hand out physical memory in.
const PAGE: u64 = 2 << 20;
/// The most that growth adds beyond a request.
const LARGEST_STEP: u64 = 256 << 20;

/// The limits of a pool, and the size of its steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    initial_size: u64,
    soft_limit: u64,
    hard_limit: u64,
}

impl Growth {
    /// Sizes in bytes, the soft limit not above the hard one.
    pub(super) fn new(initial_size: u64, soft_limit: u64, hard_limit: u64) -> Self {
        Self { initial_size, soft_limit, hard_limit }
    }

    /// Up to here the pool grows before it makes a stream wait.
    pub(super) fn soft_limit(&self) -> u64 {
        self.soft_limit
    }

    /// Beyond this the pool never grows.
    pub(super) fn hard_limit(&self) -> u64 {
        self.hard_limit
    }

    /// The bytes to ask for when `held` are reserved and `needed` are wanted, or `None` if the limit leaves no room.
    ///
    /// A step is an eighth of what is held, so that a pool of n bytes was grown in O(log n) steps and holds little more than
    /// was needed; a larger request gets what it needs.
    pub(super) fn chunk_size(held: u64, needed: u64, limit: u64) -> Option<u64> {
        let room = limit.saturating_sub(held) / GRANULE * GRANULE;
        if needed > room {
            return None;
        }
        let step = (held / 8).clamp(PAGE, LARGEST_STEP);
        Some(needed.max(step).checked_next_multiple_of(PAGE).unwrap_or(needed).min(room))
    }

    /// The most bytes to reserve, if it can be helped, for a program that has used at most `peak` at once: half as much again,
    /// and on top what it asked for at first, which may still come.
    pub(super) fn enough(&self, peak: u64) -> u64 {
        peak.saturating_add(peak / 2).saturating_add(self.initial_size)
    }

    /// What to try after upstream refused `refused` bytes: half, but never less than needed; `None` if it was no more.
    pub(super) fn smaller(refused: u64, needed: u64) -> Option<u64> {
        (refused > needed).then(|| needed.max(refused / 2 / GRANULE * GRANULE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_pages_within_the_limit() {
        assert_eq!(Growth::chunk_size(0, 256, u64::MAX), Some(PAGE));
        assert_eq!(Growth::chunk_size(0, PAGE + 256, u64::MAX), Some(2 * PAGE));
        assert_eq!(Growth::chunk_size(1 << 30, 256, u64::MAX), Some(128 << 20));
        assert_eq!(Growth::chunk_size(1 << 40, 256, u64::MAX), Some(LARGEST_STEP));
        assert_eq!(Growth::chunk_size(PAGE, 1024, PAGE + 1024), Some(1024));
        assert_eq!(Growth::chunk_size(PAGE, 1280, PAGE + 1024), None);
        assert_eq!(
            Growth::chunk_size(0, u64::MAX / GRANULE * GRANULE, u64::MAX),
            Some(u64::MAX / GRANULE * GRANULE)
        );
    }

    #[test]
    fn smaller_chunks_end_at_the_need() {
        assert_eq!(Growth::smaller(1 << 20, 256), Some(1 << 19));
        assert_eq!(Growth::smaller(512, 512), None);
        assert_eq!(Growth::smaller(600 * 256, 512 * 256), Some(512 * 256));
    }
}
