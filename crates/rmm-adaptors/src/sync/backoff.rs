//! Waiting for another thread that is about to leave, and wakes nobody.

#![forbid(unsafe_code)]

use super::primitives::yield_now;

/// Returns once `is_so` holds.
///
/// A thread that is waited for wakes nobody, as that would cost it an atomic operation each time.
/// So the waiting thread looks again and again: first at once, for the other mostly leaves within
/// some nanoseconds; then after it has left the processor to others, for the other may have been
/// interrupted; and at last after sleeping, a millisecond at the most, for the other may be stopped
/// for long, by a debugger or because its processor is given to other programs. It then takes next
/// to no time from whoever else runs.
#[cfg_attr(
    not(rmm_loom),
    expect(clippy::disallowed_methods, reason = "the other thread leaves without telling anybody")
)]
pub(crate) fn spin_until(is_so: impl Fn() -> bool) {
    #[cfg(not(rmm_loom))]
    let mut looks = 0;
    while !is_so() {
        #[cfg(rmm_loom)]
        yield_now();
        #[cfg(not(rmm_loom))]
        {
            match pause::after(looks) {
                pause::Pause::Spin => std::hint::spin_loop(),
                pause::Pause::Yield => yield_now(),
                pause::Pause::Sleep(time) => std::thread::sleep(time),
            }
            looks = looks.saturating_add(1);
        }
    }
}

#[cfg(not(rmm_loom))]
mod pause {
    use std::time::Duration;

    /// Looks that follow each other at once.
    const SPINS: u32 = 64;
    /// Looks after which the processor is left to others.
    const YIELDS: u32 = 64;
    const SHORTEST_SLEEP: Duration = Duration::from_micros(16);
    const LONGEST_SLEEP: Duration = Duration::from_millis(1);

    /// What to do between two looks.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) enum Pause {
        Spin,
        Yield,
        Sleep(Duration),
    }

    /// The pause after so many looks in vain.
    pub(super) fn after(looks: u32) -> Pause {
        if looks < SPINS {
            return Pause::Spin;
        }
        let Some(sleeps) = looks.checked_sub(SPINS + YIELDS) else { return Pause::Yield };
        // Further doublings would make no difference.
        let time = SHORTEST_SLEEP * (1 << sleeps.min(16));
        Pause::Sleep(time.min(LONGEST_SLEEP))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_short_wait_does_not_sleep() {
            assert!((0..SPINS).all(|looks| after(looks) == Pause::Spin));
            assert!((SPINS..SPINS + YIELDS).all(|looks| after(looks) == Pause::Yield));
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
