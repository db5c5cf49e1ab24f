//! A barrier between short rounds of work.

#![forbid(unsafe_code)]

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A barrier whose waiters spin: between rounds of a microsecond a wait in the kernel would be most
/// of what is timed. `peers/workloads.hpp` has the same one.
#[derive(Debug)]
pub(crate) struct SpinBarrier {
    threads: usize,
    /// Looks before a thread lets others run: few if there are not enough processors for all.
    spins: u32,
    arrived: AtomicUsize,
    round: AtomicUsize,
}

impl SpinBarrier {
    pub(crate) fn new(threads: usize) -> Self {
        let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let spins = if threads <= processors { 1_000 } else { 16 };
        Self { threads, spins, arrived: AtomicUsize::new(0), round: AtomicUsize::new(0) }
    }

    /// Waits until all threads have arrived.
    pub(crate) fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            // No thread arrives again before the round has changed.
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
        } else {
            let mut looks = 0;
            while self.round.load(Ordering::Acquire) == round {
                looks += 1;
                if looks < self.spins { hint::spin_loop() } else { thread::yield_now() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_enters_a_round_before_all_have_left_the_last() {
        const ROUNDS: usize = 100;
        let (barrier, entered) = (SpinBarrier::new(3), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 0..ROUNDS {
                        entered.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert_eq!(entered.load(Ordering::Relaxed), 3 * (round + 1));
                        barrier.wait();
                    }
                });
            }
        });
    }
}
