//! Workload: tasks that change threads.

use super::bench::{Bench, nanos_per, to_f64};
use super::threads::programs;
use crate::allocators::Start;
use crate::migrate::{Tasks, empty_rounds};
use crate::outcome::Outcome;
use crate::program::Program;

const THREADS: usize = 16;

/// After 1,000 and after 50 calls each. The barrier between the rounds is timed alone, too: with
/// short rounds it is a good part of them.
pub(super) fn migrate(bench: &mut Bench<'_>) -> Outcome {
    let programs = programs(bench, THREADS)?;
    let calls: u64 = programs.iter().map(Program::calls).sum();
    let device = bench.device.handle();
    for calls_a_round in [1_000, 50] {
        let (allocator, tasks) = (bench.make(Start::Full)?, Tasks::new(&programs)?);
        let value = bench.median_of_a_while(|| {
            let time = tasks.run(&device, &allocator.resource, calls_a_round)?;
            Ok(to_f64(calls) / (time.as_secs_f64() * 1e6))
        })?;
        bench.row("migrate", format!("T={THREADS} calls={calls_a_round}"), value, "Mops/s")?;
    }
    let rounds = bench.extent.scaled(10_000);
    let value = bench
        .median_of(|| Ok(nanos_per(empty_rounds(&device, THREADS, rounds)?, rounds as u64)))?;
    bench.row("migrate", format!("T={THREADS} barrier"), value, "ns/round")
}
