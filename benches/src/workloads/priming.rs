//! Workload: a pool of the driver that reserves memory when it is made, and one that does not.

use std::time::Instant;

use rmm_core::{CudaStream, Device, Resource as _};
use rmm_resources::CudaAsyncMemoryResource;

use super::bench::{Bench, median, nanos_per, new_stream};
use super::extent::Extent;
use super::pairs::layout;
use crate::outcome::Outcome;

/// Blocks that are live at once.
const BLOCKS: u64 = 100;

/// Makes the pool, and twice allocates and frees all blocks, as `ASYNC_PRIMING_BENCH` of RMM.
pub(super) fn priming(bench: &mut Bench<'_>) -> Outcome {
    let bytes: usize = if bench.extent == Extent::Full { 8 << 20 } else { 64 << 10 };
    let stream = new_stream()?;
    for (name, initial) in [("empty", 0), ("primed", 128 * bytes as u64)] {
        let mut figures = [const { Vec::new() }; 3];
        for turn in 0..=bench.extent.repetitions() {
            Device::synchronize_current()?;
            let clock = Instant::now();
            let pool = CudaAsyncMemoryResource::builder().initial_size(initial).build()?;
            Device::synchronize_current()?;
            let made = clock.elapsed().as_secs_f64() * 1e6;
            let values =
                [made, allocations(&pool, &stream, bytes)?, allocations(&pool, &stream, bytes)?];
            if turn > 0 {
                figures.iter_mut().zip(values).for_each(|(figure, value)| figure.push(value));
            }
        }
        let units = [("made", "us"), ("first", "ns/op"), ("second", "ns/op")];
        for ((what, unit), values) in units.into_iter().zip(figures) {
            bench.row("priming", format!("{name} {what}"), median(values), unit)?;
        }
    }
    Ok(())
}

/// Nanoseconds of one of the allocations; then all are freed.
fn allocations(pool: &CudaAsyncMemoryResource, stream: &CudaStream, bytes: usize) -> Outcome<f64> {
    let layout = layout(bytes)?;
    let clock = Instant::now();
    let blocks = (0..BLOCKS).map(|_| pool.allocate(stream, layout)).collect::<Result<Vec<_>, _>>();
    let time = clock.elapsed();
    for block in blocks? {
        // SAFETY: allocated just now with this layout on this stream; no work uses it.
        unsafe { pool.deallocate(stream, block, layout) };
    }
    Device::synchronize_current()?;
    Ok(nanos_per(time, BLOCKS))
}
