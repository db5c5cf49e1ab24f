//! Whether threads wait for each other at the pool's lock.

#![forbid(unsafe_code)]

/// Operations on the heap over which waits for the lock are counted.
const WINDOW: u64 = 256;

/// The lock is contended if one operation in so many waits for it.
const OPERATIONS_A_WAIT: u64 = 64;

/// For so many operations it counts as contended from then on: what is done about it makes waits
/// rare.
const LASTS: u64 = 16_384;

/// The waits for a pool's lock. Protected by that lock.
#[derive(Debug, Default)]
pub(super) struct Contention {
    /// The operations on the heap, and the waits for its lock, when they were last looked at.
    seen: (u64, u64),
    /// The operations from which on the lock is not contended.
    until: u64,
}

impl Contention {
    /// Notes that so many threads have waited so far, and says whether the lock is contended.
    #[inline]
    pub(super) fn note(&mut self, operations: u64, waits: u64) -> bool {
        let more = operations.wrapping_sub(self.seen.0);
        if more >= WINDOW {
            if waits.wrapping_sub(self.seen.1) * OPERATIONS_A_WAIT >= more {
                self.until = operations + LASTS;
            }
            self.seen = (operations, waits);
        }
        operations < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wait_in_many_operations_is_contention_for_a_while() {
        let mut contention = Contention::default();
        assert!(!contention.note(WINDOW, WINDOW / OPERATIONS_A_WAIT - 1));
        assert!(!contention.note(2 * WINDOW - 1, 100), "the window is not over");
        assert!(contention.note(2 * WINDOW, 100));
        assert!(contention.note(2 * WINDOW + LASTS - 1, 100));
        assert!(!contention.note(2 * WINDOW + LASTS, 100));
    }
}
