//! Workloads: several threads at once with random calls, each with its own stream or all on one.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use rmm_cli::device::AnyDevice;
use rmm_core::{AnyResource, Error};

use super::bench::{Bench, new_stream, ratio, to_f64};
use crate::allocators::Start;
use crate::outcome::Outcome;
use crate::player::Player;
use crate::program::Program;
use crate::protocol::RandomOps;
use crate::rounds::on_threads;

const THREADS: usize = 16;

/// One to sixteen threads.
pub(super) fn threads(bench: &mut Bench<'_>) -> Outcome {
    let (little, quick) = (bench.is_little(), bench.extent.repetitions() == 1);
    for threads in [1, 2, 4, 8, 16] {
        if (little && ![1, 16].contains(&threads)) || (quick && threads > 2) {
            continue;
        }
        let programs = programs(bench, threads)?;
        let calls: u64 = programs.iter().map(Program::calls).sum();
        let mut players: Vec<Player<'_>> =
            programs.iter().map(Player::new).collect::<Result<_, _>>()?;
        let (allocator, device) = (bench.make(Start::Full)?, bench.device.handle());
        let value = bench.median_of(|| {
            let time = all_at_once(&device, &allocator.resource, &mut players)?;
            Ok(to_f64(calls) / (time.as_secs_f64() * 1e6))
        })?;
        bench.row("threads", format!("T={threads}"), value, "Mops/s")?;
    }
    Ok(())
}

/// Sixteen threads that use large blocks.
pub(super) fn large(bench: &mut Bench<'_>) -> Outcome {
    let programs = programs_of(bench, THREADS, RandomOps::large_of_thread)?;
    let mut players: Vec<Player<'_>> =
        programs.iter().map(Player::new).collect::<Result<_, _>>()?;
    let allocator = bench.make(Start::Full)?;
    let value = calls_a_second(bench, &allocator.resource, &programs, &mut players)?;
    bench.row("threads-large", format!("T={THREADS} 1 to 64 MiB"), value, "Mops/s")
}

/// Sixteen threads whose allocator starts empty, each with a stream and all on one, after a second
/// of such calls.
pub(super) fn from_empty(bench: &mut Bench<'_>) -> Outcome {
    let (programs, stream) = (programs(bench, THREADS)?, new_stream()?);
    let live: u64 = programs.iter().map(Program::peak_live).sum();
    let device = bench.device.handle();
    for one_stream in [false, true] {
        let mut players: Vec<Player<'_>> = if one_stream {
            programs.iter().map(|program| Player::on_stream(program, &stream)).collect()
        } else {
            programs.iter().map(Player::new).collect::<Result<_, _>>()?
        };
        let allocator = bench.make(Start::Empty)?;
        let warm_up = bench.extent.scaled(1_000);
        let begin = Instant::now();
        while begin.elapsed().as_millis() < warm_up as u128 {
            all_at_once(&device, &allocator.resource, &mut players)?;
        }
        let value = calls_a_second(bench, &allocator.resource, &programs, &mut players)?;
        let streams = if one_stream { "one stream" } else { "own streams" };
        bench.row("threads-empty", format!("T={THREADS} {streams}"), value, "Mops/s")?;
        if let Some(bytes) = allocator.peak_reserved()? {
            let held = ratio(bytes, live);
            bench.row("threads-empty", format!("{streams} reserved / live"), held, "x")?;
        }
    }
    Ok(())
}

/// Sixteen threads at once, all on one stream.
pub(super) fn shared(bench: &mut Bench<'_>) -> Outcome {
    let (programs, stream) = (programs(bench, THREADS)?, new_stream()?);
    let mut players: Vec<Player<'_>> =
        programs.iter().map(|program| Player::on_stream(program, &stream)).collect();
    let allocator = bench.make(Start::Full)?;
    let value = calls_a_second(bench, &allocator.resource, &programs, &mut players)?;
    bench.row("shared", format!("T={THREADS}"), value, "Mops/s")
}

/// Million calls a second of all players at once.
fn calls_a_second(
    bench: &Bench<'_>,
    resource: &AnyResource,
    programs: &[Program],
    players: &mut [Player<'_>],
) -> Outcome<f64> {
    let calls: u64 = programs.iter().map(Program::calls).sum();
    let device = bench.device.handle();
    bench.median_of_a_while(|| {
        let time = all_at_once(&device, resource, players)?;
        Ok(to_f64(calls) / (time.as_secs_f64() * 1e6))
    })
}

/// The random list of each thread.
pub(super) fn programs(bench: &Bench<'_>, threads: usize) -> Outcome<Vec<Program>> {
    programs_of(bench, threads, RandomOps::of_thread)
}

fn programs_of(
    bench: &Bench<'_>,
    threads: usize,
    of_thread: impl Fn(usize) -> RandomOps,
) -> Outcome<Vec<Program>> {
    let programs = (0..threads).map(|thread| {
        let ops = of_thread(thread);
        let steps = bench.extent.scaled(if bench.is_little() { 1_000 } else { ops.steps });
        Program::random(RandomOps { steps, ..ops })
    });
    Ok(programs.collect::<Result<_, _>>()?)
}

/// Runs each program on a new thread of its own; the time from the first that began to the last
/// that ended.
fn all_at_once(
    device: &AnyDevice,
    resource: &AnyResource,
    players: &mut [Player<'_>],
) -> Result<Duration, Error> {
    let ready = Barrier::new(players.len());
    let wait = || {
        ready.wait();
    };
    on_threads(device, players.iter_mut(), &wait, &|player| player.run(resource))
}
