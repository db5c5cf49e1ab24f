//! A process-wide epoch that allocators compare on their fast path. It changes when a context ends
//! or captures are announced, which an allocator could otherwise learn only by a driver call, or
//! when memory that others may suballocate falls asleep.
//!
//! ```text
//! bits 32..64  how often the end or the loss of a context was noticed, and memory fell asleep
//! bits  0..32  announcements that live now (streams may be under capture)
//! ```

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// One end of a context, in the word's upper half.
const END: u64 = 1 << 32;

static WORD: AtomicU64 = AtomicU64::new(0);

/// How often the end or the loss of a context was noticed.
static ENDS: AtomicU64 = AtomicU64::new(0);

/// The current word.
#[inline]
pub fn word() -> u64 {
    // Relaxed: a thread that learns of an event from another thread does so through
    // synchronization, which orders it after the event.
    WORD.load(Ordering::Relaxed)
}

/// The part of the word that counts ends of contexts, and sleeps.
#[inline]
pub fn ends(word: u64) -> u64 {
    word & !(END - 1)
}

/// The part of the word that counts announcements.
#[inline]
pub fn announcements(word: u64) -> u64 {
    word & (END - 1)
}

/// How often the end or the loss of a context was noticed: what of the [ends](ends) of the word is
/// no sleep.
#[inline]
pub fn ends_of_contexts() -> u64 {
    // A caller that saw the word of an end sees that end.
    fence(Ordering::Acquire);
    ENDS.load(Ordering::Relaxed)
}

/// Adds an announcement.
pub fn announce() {
    WORD.fetch_add(1, Ordering::Relaxed);
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
        let before = word();
        announce();
        note_end_of_context();
        assert!(announcements(word()) > 0 && ends(word()) > ends(before));
        withdraw();
        assert_eq!(announcements(word()), announcements(before));
    }
}
