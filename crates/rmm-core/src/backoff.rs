//! Exponential backoff: waiting for a condition that another thread makes true without a wakeup.
//! For this library's crates.

#![forbid(unsafe_code)]

use std::thread;
use std::time::Duration;

use crate::{fork, wait};

/// Polls between which the thread spins.
const SPINS: u32 = 64;
/// Polls after these between which it yields.
const YIELDS: u32 = 64;
const SHORTEST_SLEEP: Duration = Duration::from_micros(16);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Returns once `is_so` holds.
///
/// The thread that is waited for sends no wakeup, which would cost it an atomic operation each
/// time. So the waiting thread polls:
///
/// 1. It spins, since the other mostly leaves within some nanoseconds.
/// 2. It yields its processor, since the other may have been preempted.
/// 3. It sleeps, at most a millisecond at a time, since the other may be stopped for long, by a
///    debugger or on a busy machine. It then takes next to no processor time from other threads.
///
/// # Panics
/// In the child of a `fork`, where the other thread may be the parent's.
pub fn spin_until(is_so: impl Fn() -> bool) {
    let mut polls = 0;
    while !is_so() {
        Pause::after(polls).pause();
        polls = polls.saturating_add(1);
    }
}

/// What to do between two polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pause {
    Spin,
    Yield,
    Sleep(Duration),
}

impl Pause {
    /// The pause after `polls` polls.
    fn after(polls: u32) -> Self {
        if polls < SPINS {
            return Self::Spin;
        }
        let Some(sleeps) = polls.checked_sub(SPINS + YIELDS) else { return Self::Yield };
        // Further doublings would make no difference.
        let time = SHORTEST_SLEEP * (1 << sleeps.min(16));
        Self::Sleep(time.min(LONGEST_SLEEP))
    }

    /// Pauses the thread.
    ///
    /// # Panics
    /// At a sleep in the child of a `fork`.
    #[expect(clippy::disallowed_methods, reason = "the other thread sends no wakeup")]
    fn pause(self) {
        match self {
            Self::Spin => std::hint::spin_loop(),
            Self::Yield => {
                wait::about_to_wait();
                thread::yield_now();
            }
            Self::Sleep(time) => {
                fork::check_wait();
                thread::sleep(time);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_wait_does_not_sleep() {
        assert!((0..SPINS).all(|polls| Pause::after(polls) == Pause::Spin));
        assert!((SPINS..SPINS + YIELDS).all(|polls| Pause::after(polls) == Pause::Yield));
    }

    #[test]
    fn a_long_wait_sleeps_longer_each_time_up_to_a_millisecond() {
        let first = SPINS + YIELDS;
        let sleeps: Vec<_> = (first..first + 8).map(Pause::after).collect();
        let micros = [16, 32, 64, 128, 256, 512, 1000, 1000].map(Duration::from_micros);
        assert_eq!(sleeps, micros.map(Pause::Sleep));
        assert_eq!(Pause::after(u32::MAX), Pause::Sleep(LONGEST_SLEEP));
    }
}
