//! Workloads: a pool that starts empty and grows, with idle streams and with busy ones.

use std::time::Instant;

use rmm_core::Device;

use super::bench::{Bench, median, nanos_per, ratio};
use super::extent::Extent;
use crate::allocators::Start;
use crate::outcome::Outcome;
use crate::player::Player;
use crate::program::Program;
use crate::protocol::RandomOps;

/// Allocations alone, each time from a new pool.
pub(super) fn grow(bench: &mut Bench<'_>) -> Outcome {
    const BLOCKS: usize = 4_000;
    let blocks = bench.extent.scaled(BLOCKS);
    let program = Program::allocations(RandomOps::growing(), blocks)?;
    let mut reserved = None;
    let value = bench.median_of(|| {
        let (allocator, mut player) = (bench.make(Start::Empty)?, Player::new(&program)?);
        let clock = Instant::now();
        // SAFETY: the first calls of the list.
        unsafe { player.run_next(&allocator.resource, blocks) }?;
        let time = clock.elapsed();
        reserved = allocator.peak_reserved()?;
        // SAFETY: the calls before were made on this resource.
        unsafe { player.run_next(&allocator.resource, usize::MAX) }?;
        Device::synchronize_current()?;
        Ok(nanos_per(time, blocks as u64))
    })?;
    bench.row("grow", format!("blocks={BLOCKS}"), value, "ns/op")?;
    if let Some(bytes) = reserved {
        bench.row("grow", "reserved / live", ratio(bytes, program.peak_live()), "x")?;
    }
    Ok(())
}

/// Each block is filled by its stream before it is freed.
pub(super) fn busy(bench: &mut Bench<'_>) -> Outcome {
    let mut ops = RandomOps::busy();
    ops.steps = bench.extent.scaled(ops.steps);
    if bench.extent == Extent::Quick {
        // The software device fills at the speed of the host.
        ops.highest_exponent = 20;
    }
    let program = Program::random(ops)?;
    let (allocator, mut player) = (bench.make(Start::Empty)?, Player::new(&program)?);
    let mut of_host = Vec::new();
    let mut of_device = Vec::new();
    for repetition in 0..=bench.extent.repetitions() {
        let clock = Instant::now();
        // SAFETY: a random list frees each block on the stream that it was allocated on.
        unsafe { player.run_filling_each(&allocator.resource) }?;
        let host = clock.elapsed();
        Device::synchronize_current()?;
        if repetition > 0 {
            of_host.push(nanos_per(host, program.calls()));
            of_device.push(nanos_per(clock.elapsed(), program.calls()));
        }
    }
    bench.row("busy", "host", median(of_host), "ns/op")?;
    bench.row("busy", "with the device's work", median(of_device), "ns/op")?;
    if let Some(bytes) = allocator.peak_reserved()? {
        bench.row("busy", "reserved / live", ratio(bytes, program.peak_live()), "x")?;
    }
    Ok(())
}
