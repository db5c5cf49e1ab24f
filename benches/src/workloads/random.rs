//! Workload: random calls on one thread.

use std::time::{Duration, Instant};

use rmm_core::Device;

use super::bench::{Bench, Waits, nanos_per, to_f64};
use crate::allocators::Start;
use crate::outcome::Outcome;
use crate::player::Player;
use crate::program::Program;
use crate::protocol::RandomOps;

fn program(bench: &Bench<'_>, streams: usize) -> Outcome<Program> {
    let ops = RandomOps::single_thread(streams);
    let steps = bench.extent.scaled(if bench.is_little() { 2_000 } else { ops.steps });
    Ok(Program::random(RandomOps { steps, ..ops })?)
}

/// On one stream and on eight.
pub(super) fn random(bench: &mut Bench<'_>) -> Outcome {
    for streams in [1, 8] {
        let program = program(bench, streams)?;
        let (allocator, mut player) = (bench.make(Start::Full)?, Player::new(&program)?);
        let value = bench.median_of(|| {
            let clock = Instant::now();
            player.run(&allocator.resource)?;
            Ok(nanos_per(clock.elapsed(), program.calls()))
        })?;
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

/// The same list on one stream, with the clock read around each allocation.
pub(super) fn allocate(bench: &mut Bench<'_>) -> Outcome {
    let program = program(bench, 1)?;
    let (allocator, mut player) = (bench.make(Start::Full)?, Player::new(&program)?);
    player.run(&allocator.resource)?;
    Device::synchronize_current()?;
    let runs = bench.extent.repetitions();
    let mut times = Vec::with_capacity(program.list().len() * runs);
    for _ in 0..runs {
        player.run_timing_each(&allocator.resource, &mut times)?;
        Device::synchronize_current()?;
    }
    times.sort_unstable();
    for (name, per_mille) in [("p50", 500), ("p99", 990), ("p99.9", 999)] {
        bench.row("allocate", name, nanos(share(&times, per_mille)), "ns")?;
    }
    bench.row("allocate", "clock", nanos(time_of_a_look_at_the_clock()), "ns")
}

/// The time that this many of a thousand are not above.
fn share(sorted: &[Duration], per_mille: usize) -> Duration {
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
    }
}
