//! Workloads: allocate/free pairs of one size, alone, beside holes, and across two threads.

use std::alloc::Layout;
use std::time::Instant;

use rmm_core::{AnyResource, CudaStream, Device, DevicePtr, Resource as _};

use super::bench::{Bench, Waits, nanos_per, new_stream};
use crate::allocators::Start;
use crate::handoff;
use crate::outcome::Outcome;

pub(super) fn layout(bytes: usize) -> Outcome<Layout> {
    Ok(Layout::from_size_align(bytes, 256)?)
}

/// One size on one stream.
pub(super) fn pair(bench: &mut Bench<'_>) -> Outcome {
    let pairs = pair_count(bench);
    for bytes in [256, 4 << 10, 1 << 20] {
        let (allocator, stream) = (bench.make(Start::Full)?, new_stream()?);
        let layout = layout(bytes)?;
        let value = bench.median_of(|| timed_pairs(&allocator.resource, &stream, layout, pairs))?;
        bench.row("pair", format!("size={bytes}"), value, "ns/pair")?;
    }
    Ok(())
}

/// How many are timed at once.
pub(super) fn pair_count(bench: &Bench<'_>) -> usize {
    bench.extent.scaled(if bench.is_little() { 500 } else { 50_000 })
}

pub(super) fn timed_pairs(
    resource: &AnyResource,
    stream: &CudaStream,
    layout: Layout,
    pairs: usize,
) -> Outcome<f64> {
    let clock = Instant::now();
    for _ in 0..pairs {
        let block = resource.allocate(stream, layout)?;
        // SAFETY: allocated just now with this layout; no work uses it.
        unsafe { resource.deallocate(stream, block, layout) };
    }
    Ok(nanos_per(clock.elapsed(), pairs as u64))
}

/// Pairs beside free blocks that are too small, which a search would have to pass.
pub(super) fn holes(bench: &mut Bench<'_>) -> Outcome {
    let (hole, wanted) = (layout(2 << 10)?, layout(4 << 10)?);
    for holes in [0, 10, 100, 1_000, 10_000] {
        if bench.extent.repetitions() == 1 && holes > 100 {
            break;
        }
        let (allocator, stream) = (bench.make(Start::Full)?, new_stream()?);
        let resource = &allocator.resource;
        let blocks: Vec<DevicePtr> =
            (0..2 * holes).map(|_| resource.allocate(&stream, hole)).collect::<Result<_, _>>()?;
        let free_from = |first: usize| {
            for &block in blocks.iter().skip(first).step_by(2) {
                // SAFETY: allocated above with this layout; this is called once for the even and
                // once for the odd ones. No work uses them.
                unsafe { resource.deallocate(&stream, block, hole) };
            }
        };
        free_from(0);
        Device::synchronize_current()?;
        let pairs = bench.extent.scaled(if holes >= 1_000 { 1_000 } else { 20_000 });
        let value = bench.median_of(|| timed_pairs(resource, &stream, wanted, pairs))?;
        free_from(1);
        bench.row("holes", format!("H={holes}"), value, "ns/pair")?;
    }
    Ok(())
}

/// One thread allocates on one stream, another frees on another.
pub(super) fn handoff(bench: &mut Bench<'_>) -> Outcome {
    let (allocator, streams) = (bench.make(Start::Full)?, [new_stream()?, new_stream()?]);
    let (layout, device) = (layout(4 << 10)?, bench.device.handle());
    let pairs = bench.extent.scaled(50_000) as u64;
    let value = bench.median_of(|| {
        let time = handoff::run(&device, &allocator.resource, &streams, layout, pairs)?;
        Ok(nanos_per(time, pairs))
    })?;
    bench.row("handoff", "4096", value, "ns/pair")?;
    bench.waits_row("handoff", &allocator, Waits::default())
}
