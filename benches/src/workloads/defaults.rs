//! Workloads: pairs and random calls on the default streams.

use rmm_core::CudaStream;

use super::bench::Bench;
use super::pairs::{layout, pair_count, timed_pairs};
use super::random::{program, timed_run};
use crate::allocators::{Serves, Start};
use crate::outcome::Outcome;
use crate::player::Player;

/// The stream that most programs use, and with which blocking streams synchronize.
pub(super) fn legacy(bench: &mut Bench<'_>) -> Outcome {
    on_default(bench, "legacy", &CudaStream::legacy())
}

/// The stream of each thread.
pub(super) fn per_thread(bench: &mut Bench<'_>) -> Outcome {
    on_default(bench, "per-thread", &CudaStream::per_thread())
}

fn on_default(bench: &mut Bench<'_>, name: &str, stream: &CudaStream) -> Outcome {
    let (allocator, pairs) = (bench.make(Start::Full)?, pair_count(bench));
    let layout = layout(4 << 10)?;
    let value = bench.median_of(|| timed_pairs(&allocator.resource, stream, layout, pairs))?;
    bench.row(name, "size=4096", value, "ns/pair")?;
    if bench.kind.serves == Serves::Pairs {
        return Ok(());
    }
    let program = program(bench, 1)?;
    let (allocator, mut player) = (bench.make(Start::Full)?, Player::on_stream(&program, stream));
    let value = bench.median_of(|| timed_run(&mut player, &program, &allocator))?;
    bench.row(name, "random", value, "ns/op")
}
