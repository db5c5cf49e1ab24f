//! Whether threads wait for each other at the pool's lock.

#![forbid(unsafe_code)]

/// Operations on the heap over which waits for the lock are counted.
const WINDOW: u64 = 256;

/// The lock is contended if one operation in this many waits for it.
const OPERATIONS_A_WAIT: u64 = 64;

/// The operations for which it counts as contended from then on: what is done about it makes waits
/// rare.
const LASTS: u64 = 16_384;

/// The operations after a refused request for which it does not count as contended.
const PAUSE: u64 = 65_536;

/// The waits for a pool's lock. Protected by that lock.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// The operations on the heap, and the waits for its lock, when they were last looked at.
    seen: (u64, u64),
    /// The operations from which on the lock is not contended.
    until: u64,
    /// The operations before which it does not count as contended, since memory ran out.
    not_before: u64,
}

impl Contention {
    /// Says whether the lock is contended. `waits` returns how often threads have waited for it so
    /// far: it is called once in a window, since those that wait write to that count.
    #[inline]
    pub(crate) fn note(&mut self, operations: u64, waits: impl FnOnce() -> u64) -> bool {
        let more = operations.wrapping_sub(self.seen.0);
        if more >= WINDOW {
            let waits = waits();
            if waits.wrapping_sub(self.seen.1) * OPERATIONS_A_WAIT >= more {
                self.until = operations + LASTS;
            }
            self.seen = (operations, waits);
        }
        (self.not_before..self.until).contains(&operations)
    }

    /// Notes that a request was refused: for a while no memory is spent on speed.
    pub(crate) fn note_refusal(&mut self, operations: u64) {
        self.not_before = operations + PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wait_in_many_operations_is_contention_for_a_while() {
        let mut contention = Contention::default();
        assert!(!contention.note(WINDOW, || WINDOW / OPERATIONS_A_WAIT - 1));
        assert!(!contention.note(2 * WINDOW - 1, || 100), "the window is not over");
        assert!(contention.note(2 * WINDOW, || 100));
        assert!(contention.note(2 * WINDOW + LASTS - 1, || 100));
        assert!(!contention.note(2 * WINDOW + LASTS, || 100));
    }

    #[test]
    fn after_a_refusal_there_is_no_contention_for_a_while() {
        let mut contention = Contention::default();
        assert!(contention.note(WINDOW, || WINDOW));
        contention.note_refusal(WINDOW);
        assert!(!contention.note(2 * WINDOW, || 2 * WINDOW));
        assert!(!contention.note(WINDOW + PAUSE - 1, || 2 * PAUSE));
        assert!(contention.note(2 * WINDOW + PAUSE, || 3 * PAUSE));
    }
}
