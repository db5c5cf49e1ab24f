//! Low tide: the moments at which thread caches return their blocks to the heap, so that the next
//! peak of a program finds memory as the last one did.
//!
//! A cached block does not coalesce. What caches still hold from one peak divides the memory that
//! the next one needs, each time in another way, and what then lacks is mapped: without low tide a
//! pool over virtual memory held 1.05 times what a training with sequences of changing lengths used
//! in its first run, and 1.31 times after 60; with it, 1.05 and 1.17. Flushing caches costs most
//! while memory is in use, and least when little is: then the blocks coalesce to few.

#![forbid(unsafe_code)]

/// Operations on the heap between two low tides, so that programs whose use rises and falls all
/// the time keep their caches.
const OPERATIONS: u64 = 4096;

/// The use of a pool since the last low tide. Protected by the pool's lock.
#[derive(Debug, Default)]
pub(crate) struct Tide {
    /// The most bytes in use.
    high: u64,
    /// The operations on the heap at the last low tide.
    since: u64,
    /// During a low tide, the slot whose cache is flushed next.
    next_slot: Option<usize>,
}

impl Tide {
    /// Notes how much is in use of what is reserved, and begins a low tide if that has fallen to
    /// half of the most. Not where memory is plentiful: nothing is divided there that is needed.
    pub(crate) fn note_use(&mut self, used: u64, reserved: u64, operations: u64) {
        self.high = self.high.max(used);
        let is_plentiful = reserved / 2 > self.high;
        if used <= self.high / 2 && !is_plentiful && operations - self.since >= OPERATIONS {
            *self = Self { high: used, since: operations, next_slot: Some(0) };
        }
    }

    /// The slot whose cache is flushed next, if it is low tide.
    #[inline]
    pub(crate) fn next_slot(&self) -> Option<usize> {
        self.next_slot
    }

    /// Notes which slot is flushed after this one; `None` ends the low tide. Caches are flushed one
    /// in each operation, so that no call takes long.
    pub(crate) fn go_on_at(&mut self, slot: Option<usize>) {
        self.next_slot = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_flushed_when_half_of_the_most_is_in_use() {
        let mut tide = Tide::default();
        let mut begins = |used, reserved, operations| {
            tide.note_use(used, reserved, operations);
            let slot = tide.next_slot();
            tide.go_on_at(None);
            slot == Some(0)
        };
        assert!(!begins(100, 110, OPERATIONS));
        assert!(!begins(51, 110, OPERATIONS));
        assert!(!begins(50, 300, OPERATIONS), "twice as much is reserved as was ever used");
        assert!(begins(50, 101, OPERATIONS));
        assert!(!begins(25, 100, 2 * OPERATIONS - 1), "the last one was just now");
        assert!(begins(25, 100, 2 * OPERATIONS), "half of what was used since then");
    }
}
