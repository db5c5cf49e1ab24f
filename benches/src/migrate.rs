//! Migration benchmark: tasks that change threads, as those of async runtimes do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmm_cli::device::AnyDevice;
use rmm_core::{Error, Resource};

use crate::player::Player;
use crate::program::Program;
use crate::rounds::{SpinBarrier, on_threads};

/// Lists of calls, each with its stream, which one thread after the other goes on with.
#[derive(Debug)]
pub struct Tasks<'a> {
    programs: &'a [Program],
    players: Vec<Mutex<Player<'a>>>,
}

impl<'a> Tasks<'a> {
    /// One task a list, each with streams of its own.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(programs: &'a [Program]) -> Result<Self, Error> {
        let players = programs.iter().map(|program| Player::new(program).map(Mutex::new));
        Ok(Self { programs, players: players.collect::<Result<_, _>>()? })
    }

    /// Makes all calls of all tasks on as many threads, and returns how long it took: in each round
    /// thread i makes the next calls of task i + round modulo their number, and a barrier is
    /// between rounds.
    ///
    /// # Errors
    /// If a thread cannot use the device, or an allocation fails.
    pub fn run(
        &self,
        device: &AnyDevice,
        resource: &(impl Resource + Sync),
        calls_a_round: usize,
    ) -> Result<Duration, Error> {
        let longest = self.programs.iter().map(|program| program.list().len()).max();
        let rounds = longest.unwrap_or_default().div_ceil(calls_a_round);
        (0..self.players.len()).for_each(|task| self.player(task).start_over());
        let (failed, first_error) = (AtomicBool::new(false), Mutex::new(None));
        let barrier = SpinBarrier::new(self.players.len());
        let time = on_threads(device, 0..self.players.len(), &|| barrier.wait(), &|thread| {
            for round in 0..rounds {
                let task = (thread + round) % self.players.len();
                let left = self.programs[task].list().len().saturating_sub(round * calls_a_round);
                // Once a call has failed no thread makes more calls, but all go on to meet at the
                // barrier.
                if left > 0 && !failed.load(Ordering::Relaxed) {
                    let count = left.min(calls_a_round);
                    // SAFETY: all calls since the player started over were made here, on this
                    // resource.
                    if let Err(error) = unsafe { self.player(task).run_next(resource, count) } {
                        failed.store(true, Ordering::Relaxed);
                        let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
                        first.get_or_insert(error);
                    }
                }
                barrier.wait();
            }
            Ok(())
        })?;
        let first_error = first_error.into_inner().unwrap_or_else(PoisonError::into_inner);
        first_error.map_or(Ok(time), Err)
    }

    fn player(&self, task: usize) -> MutexGuard<'_, Player<'a>> {
        self.players[task].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long `rounds` rounds without calls take.
///
/// # Errors
/// If a thread cannot use the device.
pub fn empty_rounds(device: &AnyDevice, threads: usize, rounds: usize) -> Result<Duration, Error> {
    let barrier = SpinBarrier::new(threads);
    on_threads(device, 0..threads, &|| barrier.wait(), &|_| {
        (0..rounds).for_each(|_| barrier.wait());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use rmm_adaptors::{CallbackMemoryResource, StatisticsResourceAdaptor};
    use rmm_core::{DevicePtr, StreamRef};

    use super::*;
    use crate::nothing::Nothing;
    use crate::protocol::RandomOps;

    fn programs(threads: usize) -> Vec<Program> {
        let list = |thread| RandomOps { steps: 100 + thread, ..RandomOps::of_thread(thread) };
        (0..threads).map(|thread| Program::random(list(thread)).unwrap()).collect()
    }

    #[test]
    fn each_call_is_made_once_by_some_thread() {
        let machine = rmm_sim::enter();
        let (programs, device) = (programs(4), AnyDevice::Software(machine.clone()));
        let tasks = Tasks::new(&programs).unwrap();
        for calls_a_round in [7, 1_000] {
            let counting = StatisticsResourceAdaptor::new(Nothing);
            tasks.run(&device, &counting, calls_a_round).unwrap();
            check_all_made(&counting, &programs);
        }
    }

    #[test]
    fn a_run_after_one_that_failed_begins_anew() {
        let machine = rmm_sim::enter();
        let (programs, device) = (programs(4), AnyDevice::Software(machine.clone()));
        let tasks = Tasks::new(&programs).unwrap();
        let left = AtomicUsize::new(60);
        let allocate = move |_: StreamRef<'_>, _| {
            let one_less = |left: usize| left.checked_sub(1);
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                .map(|_| DevicePtr(256))
                .map_err(|_| Error::invalid_argument("test", "no more"))
        };
        // SAFETY: it returns an address without memory, which no code accesses.
        let failing = unsafe { CallbackMemoryResource::new(allocate, |_, _, _| ()) };
        let error = tasks.run(&device, &failing, 7).unwrap_err();
        assert!(error.to_string().contains("no more"), "{error}");
        let counting = StatisticsResourceAdaptor::new(Nothing);
        tasks.run(&device, &counting, 7).unwrap();
        check_all_made(&counting, &programs);
    }

    fn check_all_made(counting: &StatisticsResourceAdaptor<Nothing>, programs: &[Program]) {
        let (bytes, blocks) = (counting.bytes_counter(), counting.allocations_counter());
        assert_eq!((bytes.value, blocks.value), (0, 0));
        let calls: u64 = programs.iter().map(Program::calls).sum();
        assert_eq!(u64::try_from(2 * blocks.total), Ok(calls));
    }
}
