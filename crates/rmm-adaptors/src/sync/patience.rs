//! Waiting for another thread that is about to leave, and is told nothing.

#![forbid(unsafe_code)]

use super::primitives::yield_now;

/// Looks before the processor is left to others.
#[cfg(not(rmm_loom))]
const SPINS: u32 = 64;

/// Returns once it is so. Takes a processor's time, as whoever is waited for wakes nobody: that would cost it an atomic operation each time.
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    #[cfg(not(rmm_loom))]
    for _ in 0..SPINS {
        if is_so() {
            return;
        }
        std::hint::spin_loop();
    }
    while !is_so() {
        yield_now();
    }
}
