//! Workload: several threads at once, each with its own stream and random calls.

use std::panic;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rmm_cli::device::DeviceHandle;
use rmm_core::{AnyResource, Error};

use super::bench::{Bench, to_f64};
use crate::allocators::Start;
use crate::outcome::Outcome;
use crate::player::Player;
use crate::program::Program;
use crate::protocol::RandomOps;

/// One to sixteen threads.
pub(super) fn threads(bench: &mut Bench<'_>) -> Outcome {
    let (little, quick) = (bench.is_little(), bench.extent.repetitions() == 1);
    for threads in [1, 2, 4, 8, 16] {
        if (little && ![1, 16].contains(&threads)) || (quick && threads > 2) {
            continue;
        }
        let programs: Vec<Program> = (0..threads)
            .map(|thread| {
                let ops = RandomOps::of_thread(thread);
                let steps = bench.extent.scaled(if little { 1_000 } else { ops.steps });
                Program::random(RandomOps { steps, ..ops })
            })
            .collect::<Result<_, _>>()?;
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

/// Runs each program on a new thread of its own; the time from the first that began to the last
/// that ended.
fn all_at_once(
    device: &DeviceHandle,
    resource: &AnyResource,
    players: &mut [Player<'_>],
) -> Result<Duration, Error> {
    let ready = Barrier::new(players.len());
    let spans: Vec<Result<(Instant, Instant), Error>> = thread::scope(|scope| {
        let running: Vec<_> = players
            .iter_mut()
            .map(|player| {
                let ready = &ready;
                scope.spawn(move || {
                    let current = device.make_current();
                    ready.wait(); // also if it failed: the others wait for this thread
                    let begin = Instant::now();
                    player.run(resource)?;
                    let end = Instant::now();
                    current.map(|_| (begin, end))
                })
            })
            .collect();
        let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|span| span.unwrap_or_else(|panic| panic::resume_unwind(panic))).collect()
    });
    let spans = spans.into_iter().collect::<Result<Vec<_>, _>>()?;
    let begin = spans.iter().map(|span| span.0).min();
    let end = spans.iter().map(|span| span.1).max();
    Ok(begin.zip(end).map(|(begin, end)| end - begin).unwrap_or_default())
}
