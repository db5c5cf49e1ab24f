//! Workloads: many blocks allocated before any is freed, and streams that live for a few calls.

use std::time::{Duration, Instant};

use rmm_core::Device;

use super::bench::{Bench, nanos_per, new_stream};
use super::random::timed_run;
use crate::allocators::Start;
use crate::outcome::Outcome;
use crate::player::Player;
use crate::program::Program;
use crate::protocol::RandomOps;

/// Blocks of a burst.
const BLOCKS: usize = 2_000;

/// The order in which blocks are freed: a permutation of their numbers.
type Order = fn(usize) -> usize;

/// Bursts of one list of sizes, freed in three orders.
pub(super) fn bursts(bench: &mut Bench<'_>) -> Outcome {
    let orders: [(&str, Order); 3] = [
        ("fifo", |number| number),
        ("lifo", |number| BLOCKS - 1 - number),
        // A permutation: 7,919 is prime.
        ("random", |number| number * 7_919 % BLOCKS),
    ];
    for (name, order) in orders {
        let program = Program::burst(RandomOps::burst(), BLOCKS, order)?;
        let (allocator, mut player) = (bench.make(Start::Full)?, Player::new(&program)?);
        let value = bench.median_of(|| timed_run(&mut player, &program, &allocator))?;
        bench.row("bursts", name, value, "ns/op")?;
    }
    Ok(())
}

/// Ten allocations and ten frees on a stream that is then destroyed: what they add to the time of
/// a stream alone.
pub(super) fn new_streams(bench: &mut Bench<'_>) -> Outcome {
    let program = Program::allocations(RandomOps::burst(), 10)?;
    let (allocator, streams) = (bench.make(Start::Full)?, bench.extent.scaled(500));
    let value = bench.median_of(|| {
        let (mut with, mut without) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..streams {
            let clock = Instant::now();
            drop(new_stream()?);
            without += clock.elapsed();
            let clock = Instant::now();
            let stream = new_stream()?;
            Player::on_stream(&program, &stream).run(&allocator.resource)?;
            drop(stream);
            with += clock.elapsed();
        }
        Device::synchronize_current()?;
        Ok(nanos_per(with.saturating_sub(without), program.calls() * streams as u64))
    })?;
    bench.row("new-streams", "calls=20", value, "ns/op")
}
