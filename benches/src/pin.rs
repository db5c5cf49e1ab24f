//! Thread affinity: each measuring thread stays on a processor of its own.
//!
//! A thread that moves between processors loses its caches, and hosts run some of their processors
//! faster than others: both show as two speeds within one run.

#![forbid(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The processors that this process may run on, once threads are to be pinned.
static PROCESSORS: OnceLock<Vec<usize>> = OnceLock::new();

/// Pins the calling thread, and from now on each thread that calls [`pin_thread`]; then keeps the
/// processor busy until its clock has risen.
///
/// For after the device was opened: the driver's own threads would stay on this processor, too. A
/// new thread begins on the processor of the one that made it, so each has to call [`pin_thread`].
pub fn enable() {
    const RISE: Duration = Duration::from_millis(300);
    PROCESSORS.get_or_init(affinity::allowed);
    pin_thread(0, 1);
    let clock = Instant::now();
    while clock.elapsed() < RISE {
        std::hint::spin_loop();
    }
}

/// Keeps the calling thread, number `place` of `threads` at once, on a processor of its own. Where
/// there are too few for all of them, it may run on each. Does nothing before [`enable`].
///
/// The last processors are taken first, since the first ones serve most interrupts.
pub fn pin_thread(place: usize, threads: usize) {
    if let Some(processors) = PROCESSORS.get() {
        affinity::set(chosen(processors, place, threads));
    }
}

fn chosen(processors: &[usize], place: usize, threads: usize) -> &[usize] {
    match processors.len().checked_sub(place + 1) {
        Some(from_the_end) if threads <= processors.len() => {
            &processors[from_the_end..=from_the_end]
        }
        _ => processors,
    }
}

#[cfg(target_os = "linux")]
mod affinity {
    //! Linux's scheduler.

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// None where the system does not say.
    pub(super) fn allowed() -> Vec<usize> {
        let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
        (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect()
    }

    pub(super) fn set(processors: &[usize]) {
        let mut set = CpuSet::new();
        for &processor in processors {
            set.set(processor);
        }
        // Where the system does not allow it, threads move: the figures vary more.
        _ = sched_setaffinity(None, &set);
    }
}

#[cfg(not(target_os = "linux"))]
mod affinity {
    //! Elsewhere threads move as the system wants.

    pub(super) fn allowed() -> Vec<usize> {
        Vec::new()
    }

    pub(super) fn set(_: &[usize]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_processors_of_their_own_if_there_are_enough() {
        let processors = [0, 2, 3, 9];
        let of = |place, threads| chosen(&processors, place, threads);
        assert_eq!([of(0, 1), of(0, 4), of(1, 4), of(3, 4)], [[9], [9], [3], [0]]);
        assert_eq!(of(0, 5), processors, "there are too few");
        assert!(chosen(&[], 0, 1).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_stays_where_it_was_put() {
        let before = affinity::allowed();
        let last = &before[before.len() - 1..];
        affinity::set(last);
        assert_eq!(affinity::allowed(), last);
        affinity::set(&before);
        assert_eq!(affinity::allowed(), before);
    }
}
