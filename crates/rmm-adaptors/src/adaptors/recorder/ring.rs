//! The last events, in a ring that threads write without a lock.

#![forbid(unsafe_code)]

use std::fmt;

use rmm_core::DevicePtr;

use crate::adaptors::logging::Action;
use crate::adaptors::tagged::Tag;
use crate::shared::site::Site;
use crate::sync::first_thread::Access;
use crate::sync::primitives::atomic::{AtomicU64, Ordering};

/// A call that a ring keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Event {
    pub(super) action: Action,
    pub(super) pointer: DevicePtr,
    pub(super) bytes: u64,
    /// The handle of the stream.
    pub(super) stream: u64,
    /// Of the clock, in ticks.
    pub(super) time: u64,
    /// The lower half of the thread's number.
    pub(super) thread: u32,
    /// Of a free, that of the block.
    pub(super) tag: Tag,
    /// Of a free, that of the block.
    pub(super) site: Site,
}

/// The most events that a ring has room for: 768 MiB.
const MOST_EVENTS: usize = 1 << 24;

/// Words that an event is packed into.
const WORDS: usize = 5;

/// An event and a check of it. Threads that are a whole round apart may write one slot at once, and
/// a reader may meet a slot that is being written: then the check does not fit.
#[derive(Default)]
struct Slot {
    words: [AtomicU64; WORDS],
    check: AtomicU64,
}

pub(super) struct Ring {
    /// A power of two of them.
    slots: Box<[Slot]>,
    /// Events so far.
    number: AtomicU64,
}

const _: () = assert!(size_of::<Slot>() == 48, "the documentation of the builder says so");

impl Event {
    #[inline]
    fn pack(self) -> [u64; WORDS] {
        let Self { action, pointer, bytes, stream, time, thread, tag, site } = self;
        let who = u64::from(thread) << 32 | u64::from(tag.number()) << 16;
        [
            pointer.0,
            bytes.min(u64::MAX >> 2) << 2 | action as u64,
            stream,
            time,
            who | u64::from(site.number()),
        ]
    }

    fn unpack([pointer, bytes, stream, time, who]: [u64; WORDS]) -> Option<Self> {
        // The lower halves.
        #[expect(clippy::cast_possible_truncation, reason = "each field has its bits")]
        let (tag, site) = ((who >> 16) as u16, who as u16);
        Some(Self {
            action: *[Action::Allocate, Action::Free, Action::Failure]
                .get(usize::try_from(bytes & 3).ok()?)?,
            pointer: DevicePtr(pointer),
            bytes: bytes >> 2,
            stream,
            time,
            thread: u32::try_from(who >> 32).ok()?,
            tag: Tag::numbered(tag),
            site: Site::numbered(site),
        })
    }
}

/// What a slot's check is for the words of the event with this number. Each word is mixed in by a
/// multiplication, so that changes of two words, as of addresses and times, do not cancel out.
#[inline]
fn check(words: [u64; WORDS], number: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let start = number.wrapping_mul(FACTOR) ^ 1;
    words.into_iter().fold(start, |check, word| (check.rotate_left(29) ^ word).wrapping_mul(FACTOR))
}

impl Ring {
    /// Room for `events`, rounded up to a power of two, and at most [`MOST_EVENTS`].
    pub(super) fn new(events: usize) -> Self {
        let slots = events.clamp(1, MOST_EVENTS).next_power_of_two();
        Self { slots: (0..slots).map(|_| Slot::default()).collect(), number: AtomicU64::new(0) }
    }

    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Events so far, those that are gone included.
    pub(super) fn events(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn record(&self, access: &Access<'_>, event: Event) {
        let number = if access.is_exclusive() {
            let number = self.number.load(Ordering::Relaxed);
            self.number.store(number + 1, Ordering::Relaxed);
            number
        } else {
            self.number.fetch_add(1, Ordering::Relaxed)
        };
        if let Some(slot) = self.slots.get(self.index(number)) {
            let words = event.pack();
            for (place, word) in slot.words.iter().zip(words) {
                place.store(word, Ordering::Relaxed);
            }
            slot.check.store(check(words, number), Ordering::Relaxed);
        }
    }

    #[inline]
    fn index(&self, number: u64) -> usize {
        // Below the number of slots, so it does not change the value.
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits are the index")]
        let low = number as usize;
        low & (self.slots.len() - 1)
    }

    /// The events of the ring in their order, without those that are being written.
    pub(super) fn read(&self) -> Vec<Event> {
        let end = self.events();
        let start = end.saturating_sub(self.slots.len() as u64);
        (start..end).filter_map(|number| self.get(number)).collect()
    }

    fn get(&self, number: u64) -> Option<Event> {
        let slot = self.slots.get(self.index(number))?;
        let words = [0, 1, 2, 3, 4].map(|word: usize| slot.words[word].load(Ordering::Relaxed));
        let is_whole = slot.check.load(Ordering::Relaxed) == check(words, number);
        if is_whole { Event::unpack(words) } else { None }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("capacity", &self.capacity())
            .field("events", &self.events())
            .finish()
    }
}

#[cfg(all(test, not(rmm_loom)))]
mod tests {
    use super::*;

    fn event(number: u64) -> Event {
        Event {
            action: [Action::Allocate, Action::Free, Action::Failure]
                [usize::try_from(number % 3).expect("small")],
            pointer: DevicePtr(number * 256),
            bytes: number * number,
            stream: number ^ u64::MAX,
            time: number * 3,
            thread: u32::MAX - u32::try_from(number).expect("small"),
            tag: Tag::numbered(u16::try_from(number % 1024).expect("small")),
            site: Site::numbered(u16::try_from(number % 16384).expect("small")),
        }
    }

    #[test]
    fn the_last_events_stay_in_their_order() {
        let ring = Ring::new(5);
        assert_eq!((ring.capacity(), ring.read()), (8, vec![]));
        for count in 1..30_u64 {
            ring.record(&Access::SHARED, event(count - 1));
            let kept: Vec<Event> = (count.saturating_sub(8)..count).map(event).collect();
            assert_eq!(ring.read(), kept);
        }
        assert_eq!(ring.events(), 29);
    }

    #[test]
    fn events_that_threads_write_at_once_are_whole_or_missing() {
        let ring = Ring::new(16);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let ring = &ring;
                scope.spawn(move || {
                    for number in 0..20_000 {
                        ring.record(&Access::SHARED, event(number * 3 + thread));
                    }
                });
            }
            for _ in 0..2000 {
                for found in ring.read() {
                    assert_eq!(found, event(found.pointer.0 / 256));
                }
            }
        });
        assert_eq!(ring.events(), 60_000);
    }
}
