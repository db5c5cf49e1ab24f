//! Workload: recorded programs, on a pool that starts empty and grows.

use std::time::Instant;

use super::bench::{Bench, Waits, nanos_per, ratio};
use super::recorded::Recorded;
use crate::allocators::Start;
use crate::outcome::Outcome;
use crate::player::Player;

/// The first run, which grows the pool, and those after it.
pub(super) fn replay(bench: &mut Bench<'_>) -> Outcome {
    for Recorded { name, program } in bench.recorded {
        let (allocator, mut player) = (bench.make(Start::Empty)?, Player::new(program)?);
        let mut cold = None;
        let warm = bench.median_of(|| {
            let clock = Instant::now();
            player.run(&allocator.resource)?;
            let value = nanos_per(clock.elapsed(), program.calls());
            if cold.is_none() {
                cold = Some((value, allocator.peak_reserved()?));
            }
            Ok(value)
        })?;
        if let Some((cold, reserved)) = cold {
            bench.row("replay_cold", name, cold, "ns/op")?;
            if let Some(bytes) = reserved {
                let over_peak = ratio(bytes, program.peak_live());
                bench.row("replay_reserved_over_peak", name, over_peak, "x")?;
            }
        }
        bench.row("replay", name, warm, "ns/op")?;
        bench.waits_row(name, &allocator, Waits::default())?;
    }
    Ok(())
}
