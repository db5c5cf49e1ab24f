//! Threads that work at the same time, and a barrier between short rounds of their work.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{hint, panic, thread};

use rmm_cli::device::AnyDevice;
use rmm_core::Error;

use crate::pin::pin_thread;

/// Does the work on new threads, one for each item, which first `wait` for all others; the time
/// from the first that began to the last that ended.
pub(crate) fn on_threads<T: Send>(
    device: &AnyDevice,
    items: impl ExactSizeIterator<Item = T>,
    wait: &(impl Fn() + Sync),
    work: &(impl Fn(T) -> Result<(), Error> + Sync),
) -> Result<Duration, Error> {
    let threads = items.len();
    let spans: Vec<Result<(Instant, Instant), Error>> = thread::scope(|scope| {
        let start = |(thread, item)| {
            scope.spawn(move || {
                pin_thread(thread, threads);
                // Also if it fails: the others wait for this thread.
                let current = device.make_current();
                wait();
                let begin = Instant::now();
                work(item)?;
                let end = Instant::now();
                current.map(|_| (begin, end))
            })
        };
        let running: Vec<_> = items.enumerate().map(start).collect();
        let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|span| span.unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
    });
    let spans = spans.into_iter().collect::<Result<Vec<_>, _>>()?;
    let begin = spans.iter().map(|span| span.0).min();
    let end = spans.iter().map(|span| span.1).max();
    Ok(begin.zip(end).map(|(begin, end)| end - begin).unwrap_or_default())
}

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
