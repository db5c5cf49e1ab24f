//! The process's epoch, which allocators compare on their fast path. It changes when a context ends
//! or captures are announced, which an allocator could otherwise learn only by a driver call, or
//! when memory that others may suballocate falls asleep.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// ```text
/// bits 32..64  how often the end or the loss of a context was noticed, and memory fell asleep
/// bits  0..32  announcements that live now (streams may be under capture)
/// ```
static WORD: AtomicU64 = AtomicU64::new(0);

/// One end of a context, in the word's upper half.
const END: u64 = 1 << 32;

/// How often the end or the loss of a context was noticed.
static ENDS: AtomicU64 = AtomicU64::new(0);

/// The epoch at some moment. While it is the same, no context has ended, no memory has fallen
/// asleep, and as many captures are announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch of this moment.
    #[inline]
    pub fn now() -> Self {
        // Relaxed: a thread that learns of an event from another thread does so through
        // synchronization, which orders it after the event.
        Self(WORD.load(Ordering::Relaxed))
    }

    /// The same epoch, as it is while no capture is announced.
    #[inline]
    #[must_use]
    pub fn without_captures(self) -> Self {
        Self(self.0 & !(END - 1))
    }

    /// How many announcements of captures live.
    #[inline]
    pub fn announcements(self) -> u64 {
        self.0 & (END - 1)
    }
}

/// An [`Epoch`] that threads share.
#[derive(Debug)]
pub struct AtomicEpoch(AtomicU64);

impl AtomicEpoch {
    /// Starts at `epoch`.
    pub fn new(epoch: Epoch) -> Self {
        Self(AtomicU64::new(epoch.0))
    }

    /// The epoch; relaxed.
    #[inline]
    pub fn load(&self) -> Epoch {
        Epoch(self.0.load(Ordering::Relaxed))
    }

    /// Replaces the epoch; relaxed.
    pub fn store(&self, epoch: Epoch) {
        self.0.store(epoch.0, Ordering::Relaxed);
    }
}

/// How often the end or the loss of a context was noticed: what of an epoch is no sleep and no
/// announcement.
#[inline]
pub fn ends_of_contexts() -> u64 {
    // A caller that saw the word of an end sees that end.
    fence(Ordering::Acquire);
    ENDS.load(Ordering::Relaxed)
}

/// Adds an announcement that streams may be under capture.
pub fn announce() {
    let before = Epoch(WORD.fetch_add(1, Ordering::Relaxed));
    // As `Arc` does: a program that forgets this many scopes must not carry into the upper half.
    if before.announcements() >= END / 2 {
        std::process::abort();
    }
}

/// Withdraws an announcement.
pub fn withdraw() {
    WORD.fetch_sub(1, Ordering::Relaxed);
}

/// Records that a context may have ended.
#[cold]
pub fn note_end_of_context() {
    ENDS.fetch_add(1, Ordering::Relaxed);
    // Release: see `ends_of_contexts`.
    WORD.fetch_add(END, Ordering::Release);
}

/// Records that memory which others may suballocate has fallen asleep.
#[cold]
pub fn note_sleep() {
    WORD.fetch_add(END, Ordering::Relaxed);
}

/// Whether a driver function ends a context.
macro_rules! ends_context {
    (cuDevicePrimaryCtxReset_v2) => {
        true
    };
    (cuDevicePrimaryCtxRelease_v2) => {
        true
    };
    ($other:ident) => {
        false
    };
}
pub(crate) use ends_context;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_end_contexts_are_known_by_name() {
        let ends = [
            ends_context!(cuDevicePrimaryCtxReset_v2),
            ends_context!(cuDevicePrimaryCtxReset_v3),
            ends_context!(cuInit),
        ];
        assert_eq!(ends, [true, false, false]);
        let ending = ["cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRelease_v2"];
        let known = crate::SYMBOLS.iter().filter(|(name, ..)| ending.contains(name));
        assert_eq!(known.count(), 2, "both are in the table");
    }

    #[test]
    fn the_halves_of_the_word_do_not_disturb_each_other() {
        let before = Epoch::now();
        announce();
        note_end_of_context();
        let now = Epoch::now();
        assert!(now.announcements() > 0 && now.without_captures() != before.without_captures());
        withdraw();
        assert_eq!(Epoch::now().announcements(), before.announcements());
    }
}
