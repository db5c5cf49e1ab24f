//! Workload: tasks that change threads, as those of async runtimes do.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rmm_cli::device::DeviceHandle;
use rmm_core::{AnyResource, Error};

use super::bench::{Bench, nanos_per, to_f64};
use super::threads::{longest_span, programs};
use crate::allocators::Start;
use crate::outcome::Outcome;
use crate::pin::pin_thread;
use crate::player::Player;
use crate::program::Program;
use crate::rounds::SpinBarrier;

const THREADS: usize = 16;

/// A list with its stream, which one thread after the other goes on with.
type Task<'a> = Mutex<Player<'a>>;

/// In each round thread i makes the next calls of list i + round modulo the threads; a barrier is
/// between rounds. The barrier alone is timed, too: with short rounds it is a good part of them.
pub(super) fn migrate(bench: &mut Bench<'_>) -> Outcome {
    let programs = programs(bench, THREADS)?;
    let calls: u64 = programs.iter().map(Program::calls).sum();
    let device = bench.device.handle();
    for calls_a_round in [1_000, 50] {
        let players = programs.iter().map(Player::new).collect::<Result<Vec<_>, _>>()?;
        let tasks: Vec<Task<'_>> = players.into_iter().map(Mutex::new).collect();
        let allocator = bench.make(Start::Full)?;
        let value = bench.median_of_a_while(|| {
            let time = in_rounds(&device, &allocator.resource, &programs, &tasks, calls_a_round)?;
            Ok(to_f64(calls) / (time.as_secs_f64() * 1e6))
        })?;
        bench.row("migrate", format!("T={THREADS} calls={calls_a_round}"), value, "Mops/s")?;
    }
    let rounds = bench.extent.scaled(10_000);
    let value = bench.median_of(|| {
        let time = on_threads(&device, |_, barrier| (0..rounds).for_each(|_| barrier.wait()))?;
        Ok(nanos_per(time, rounds as u64))
    })?;
    bench.row("migrate", format!("T={THREADS} barrier"), value, "ns/round")
}

/// Makes all calls of all tasks; how long it took.
fn in_rounds(
    device: &DeviceHandle,
    resource: &AnyResource,
    programs: &[Program],
    tasks: &[Task<'_>],
    calls_a_round: usize,
) -> Result<Duration, Error> {
    let longest = programs.iter().map(|program| program.list().len()).max().unwrap_or_default();
    let (failed, first_error) = (AtomicBool::new(false), Mutex::new(None));
    let time = on_threads(device, |thread, barrier| {
        for round in 0..longest.div_ceil(calls_a_round) {
            let task = (thread + round) % THREADS;
            let left = programs[task].list().len().saturating_sub(round * calls_a_round);
            // Once a call has failed nobody calls any more, but all go on to meet at the barrier.
            if left > 0 && !failed.load(Ordering::Relaxed) {
                let mut player = tasks[task].lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the calls before were made on this resource: those of each run are
                // all made, unless one fails, and then no run follows.
                if let Err(error) = unsafe { player.run_next(resource, left.min(calls_a_round)) } {
                    failed.store(true, Ordering::Relaxed);
                    *first_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }
            barrier.wait();
        }
    })?;
    match first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(time),
    }
}

/// Does the work on new threads, given their numbers; the time from the first that began to the
/// last that ended.
fn on_threads(
    device: &DeviceHandle,
    work: impl Fn(usize, &SpinBarrier) + Sync,
) -> Result<Duration, Error> {
    let barrier = SpinBarrier::new(THREADS);
    let spans: Result<Vec<_>, Error> = thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (work, barrier) = (&work, &barrier);
                scope.spawn(move || {
                    pin_thread(thread, THREADS);
                    // Also if it fails: the others wait for this thread.
                    let current = device.make_current();
                    barrier.wait();
                    let begin = Instant::now();
                    work(thread, barrier);
                    let end = Instant::now();
                    current.map(|_| (begin, end))
                })
            })
            .collect();
        let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|span| span.unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
    });
    Ok(longest_span(&spans?))
}
