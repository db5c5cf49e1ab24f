//! Exponential backoff: waiting for a condition that another thread makes true without a wakeup.

#![forbid(unsafe_code)]

#[cfg(not(rmm_loom))]
use rmm_core::{fork, wait};

use super::primitives::yield_now;

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
#[cfg_attr(
    not(rmm_loom),
    expect(clippy::disallowed_methods, reason = "the other thread sends no wakeup")
)]
pub(crate) fn spin_until(is_so: impl Fn() -> bool) {
    #[cfg(not(rmm_loom))]
    let mut polls = 0;
    while !is_so() {
        #[cfg(rmm_loom)]
        yield_now();
        #[cfg(not(rmm_loom))]
        {
            match pause::after(polls) {
                pause::Pause::Spin => std::hint::spin_loop(),
                pause::Pause::Yield => {
                    wait::about_to_wait();
                    yield_now();
                }
                pause::Pause::Sleep(time) => {
                    fork::check_wait();
                    std::thread::sleep(time);
                }
            }
            polls = polls.saturating_add(1);
        }
    }
}

#[cfg(not(rmm_loom))]
mod pause {
    use std::time::Duration;

    /// Polls between which the thread spins.
    const SPINS: u32 = 64;
    /// Polls after these between which it yields.
    const YIELDS: u32 = 64;
    const SHORTEST_SLEEP: Duration = Duration::from_micros(16);
    const LONGEST_SLEEP: Duration = Duration::from_millis(1);

    /// What to do between two polls.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) enum Pause {
        Spin,
        Yield,
        Sleep(Duration),
    }

    /// The pause after `polls` polls.
    pub(super) fn after(polls: u32) -> Pause {
        if polls < SPINS {
            return Pause::Spin;
        }
        let Some(sleeps) = polls.checked_sub(SPINS + YIELDS) else { return Pause::Yield };
        // Further doublings would make no difference.
        let time = SHORTEST_SLEEP * (1 << sleeps.min(16));
        Pause::Sleep(time.min(LONGEST_SLEEP))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_short_wait_does_not_sleep() {
            assert!((0..SPINS).all(|polls| after(polls) == Pause::Spin));
            assert!((SPINS..SPINS + YIELDS).all(|polls| after(polls) == Pause::Yield));
        }

        #[test]
        fn a_long_wait_sleeps_longer_each_time_up_to_a_millisecond() {
            let first = SPINS + YIELDS;
            let sleeps: Vec<_> = (first..first + 8).map(after).collect();
            let micros = [16, 32, 64, 128, 256, 512, 1000, 1000].map(Duration::from_micros);
            assert_eq!(sleeps, micros.map(Pause::Sleep));
            assert_eq!(after(u32::MAX), Pause::Sleep(LONGEST_SLEEP));
        }
    }
}
