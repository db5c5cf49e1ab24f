//! Workload: random calls on one thread.

use std::time::{Duration, Instant};

use rmm_cli::replay::ReplaySubject;
use rmm_core::Device;

use super::bench::{Bench, Waits, median, nanos_per, to_f64};
use crate::allocators::Start;
use crate::outcome::Outcome;
use crate::player::Player;
use crate::program::Program;
use crate::protocol::RandomOps;

pub(super) fn program(bench: &Bench<'_>, streams: usize) -> Outcome<Program> {
    let ops = RandomOps::single_thread(streams);
    let steps = bench.extent.scaled(if bench.is_little() { 2_000 } else { ops.steps });
    Ok(Program::random(RandomOps { steps, ..ops })?)
}

/// On one stream and on eight.
pub(super) fn random(bench: &mut Bench<'_>) -> Outcome {
    for streams in [1, 8] {
        let program = program(bench, streams)?;
        let (allocator, mut player) = (bench.make(Start::Full)?, Player::new(&program)?);
        let value = bench.median_of(|| timed_run(&mut player, &program, &allocator))?;
        let params = format!("streams={streams}");
        bench.row("random", params.clone(), value, "ns/op")?;
        if streams == 1
            && let Some(bytes) = allocator.peak_reserved()?
        {
            bench.row("random", "reserved", to_f64(bytes) / f64::from(1 << 20), "MiB")?;
        }
        bench.waits_row(&format!("random {params}"), &allocator, Waits::default())?;
    }
    Ok(())
}

/// On 256 streams, as servers have them.
pub(super) fn streams(bench: &mut Bench<'_>) -> Outcome {
    const STREAMS: usize = 256;
    let program = program(bench, STREAMS)?;
    let (allocator, mut player) = (bench.make(Start::Full)?, Player::new(&program)?);
    let value = bench.median_of(|| timed_run(&mut player, &program, &allocator))?;
    let params = format!("streams={STREAMS}");
    bench.row("streams", params.clone(), value, "ns/op")?;
    bench.waits_row(&format!("random {params}"), &allocator, Waits::default())
}

/// Blocks that no cache of small ones keeps.
pub(super) fn large(bench: &mut Bench<'_>) -> Outcome {
    let ops = RandomOps::large();
    let program = Program::random(RandomOps { steps: bench.extent.scaled(ops.steps), ..ops })?;
    let (allocator, mut player) = (bench.make(Start::Full)?, Player::new(&program)?);
    let value = bench.median_of(|| timed_run(&mut player, &program, &allocator))?;
    bench.row("large", "2 to 256 MiB", value, "ns/op")
}

/// Nanoseconds a call.
pub(super) fn timed_run(
    player: &mut Player<'_>,
    program: &Program,
    allocator: &ReplaySubject,
) -> Outcome<f64> {
    let clock = Instant::now();
    player.run(&allocator.resource)?;
    Ok(nanos_per(clock.elapsed(), program.calls()))
}

/// Percentiles of all calls of a long list, once warm: the median of each over the runs.
pub(super) fn each_call(bench: &mut Bench<'_>) -> Outcome {
    let ops = RandomOps::timed();
    let program = Program::random(RandomOps { steps: bench.extent.scaled(ops.steps), ..ops })?;
    let (allocator, mut player) = (bench.make(Start::Full)?, Player::new(&program)?);
    player.run(&allocator.resource)?;
    Device::synchronize_current()?;
    let names = [("p50", 2), ("p99.9", 1_000), ("p99.999", 100_000), ("longest", usize::MAX)];
    let mut of_runs = names.map(|_| Vec::new());
    let mut times = Vec::with_capacity(program.list().len());
    for _ in 0..bench.extent.repetitions() {
        times.clear();
        player.run_timing_each(&allocator.resource, &mut times)?;
        Device::synchronize_current()?;
        times.sort_unstable();
        for ((_, part), of_runs) in names.iter().zip(&mut of_runs) {
            of_runs.push(nanos(below_all_but_one_in(&times, *part)));
        }
    }
    for ((name, _), of_runs) in names.iter().zip(of_runs) {
        bench.row("latency", format!("random {name}"), median(of_runs), "ns")?;
    }
    Ok(())
}

/// The time that all but one in `part` are below, and one in `part` is not.
fn below_all_but_one_in(sorted: &[Duration], part: usize) -> Duration {
    sorted[sorted.len() - 1 - sorted.len() / part]
}

/// The same list on one stream, with the clock read around each allocation.
pub(super) fn allocate(bench: &mut Bench<'_>) -> Outcome {
    let program = program(bench, 1)?;
    let (allocator, mut player) = (bench.make(Start::Full)?, Player::new(&program)?);
    player.run(&allocator.resource)?;
    Device::synchronize_current()?;
    let runs = bench.extent.repetitions();
    let mut times = Vec::with_capacity(program.list().len() * runs);
    for _ in 0..runs {
        player.run_timing_allocations(&allocator.resource, &mut times)?;
        Device::synchronize_current()?;
    }
    times.sort_unstable();
    for (name, per_mille) in [("p50", 500), ("p99", 990), ("p99.9", 999)] {
        bench.row("allocate", name, nanos(share(&times, per_mille)), "ns")?;
    }
    bench.row("allocate", "clock", nanos(time_of_a_look_at_the_clock()), "ns")
}

/// The time that this many of a thousand are not above.
pub(super) fn share(sorted: &[Duration], per_mille: usize) -> Duration {
    let place = sorted.len() * per_mille / 1000;
    sorted[place.min(sorted.len() - 1)]
}

/// What the percentiles have in them beside the allocation.
fn time_of_a_look_at_the_clock() -> Duration {
    let mut times: Vec<Duration> = (0..1001).map(|_| Instant::now().elapsed()).collect();
    times.sort_unstable();
    share(&times, 500)
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let times: Vec<Duration> = (0..1000).map(Duration::from_nanos).collect();
        assert_eq!(share(&times, 500), Duration::from_nanos(500));
        assert_eq!(share(&times, 999), Duration::from_nanos(999));
        assert_eq!(share(&times[..1], 999), Duration::ZERO);
        let all_but = |part| below_all_but_one_in(&times, part);
        let expected = [499, 989, 998, 999].map(Duration::from_nanos);
        assert_eq!([2, 100, 1000, usize::MAX].map(all_but), expected);
    }
}
