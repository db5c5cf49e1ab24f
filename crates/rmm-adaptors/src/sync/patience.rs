//! Waiting for another thread that is about to leave, and is told nothing.

#![forbid(unsafe_code)]

#[cfg(rmm_loom)]
pub(crate) use modelled::wait_until;
#[cfg(not(rmm_loom))]
pub(crate) use real::wait_until;

#[cfg(not(rmm_loom))]
mod real {
    use std::time::Duration;

    /// Looks before the processor is left to others.
    const SPINS: u32 = 64;
    /// Looks before others get it for longer: a thread of lower priority may be the one that is waited for, and may be at it for long.
    const LOOKS: u32 = 128;
    const NAP: Duration = Duration::from_micros(50);

    /// Returns once it is so.
    #[expect(
        clippy::disallowed_methods,
        reason = "whoever is waited for tells nobody: that would cost it an atomic operation each time"
    )]
    pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
        let mut looks = 0;
        while !is_so() {
            match looks {
                0..SPINS => std::hint::spin_loop(),
                SPINS..LOOKS => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
            looks = looks.saturating_add(1);
        }
    }
}

#[cfg(rmm_loom)]
mod modelled {
    pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
        while !is_so() {
            loom::thread::yield_now();
        }
    }
}
