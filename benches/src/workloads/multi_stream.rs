//! Workload: small blocks on a few streams, each beside work of the device of fixed length.

use std::time::Instant;

use rmm_containers::DeviceUVector;
use rmm_core::{AnyResource, CudaStream, Device, Resource as _};
use rmm_resources::CudaMemoryResource;

use super::bench::{Bench, new_stream};
use super::extent::Extent;
use super::pairs::layout;
use crate::allocators::Start;
use crate::outcome::Outcome;

/// Blocks of a round.
const BLOCKS: usize = 8;

/// Rounds of a new allocator and of one that is warm, until the device is done, as
/// `MULTI_STREAM_ALLOCATIONS_BENCH` of RMM: of fills instead of a kernel.
pub(super) fn multi_stream(bench: &mut Bench<'_>) -> Outcome {
    for count in 1..=4 {
        let streams = (0..count).map(|_| new_stream()).collect::<Result<Vec<_>, _>>()?;
        let fills = streams.iter().map(|stream| work(bench, stream));
        let mut fills = fills.collect::<Outcome<Vec<_>>>()?;
        let cold = bench.median_of(|| {
            let allocator = bench.make(Start::Empty)?;
            round(&allocator.resource, &streams, &mut fills)
        })?;
        let allocator = bench.make(Start::Empty)?;
        let warm = bench.median_of(|| round(&allocator.resource, &streams, &mut fills))?;
        for (name, value) in [("cold", cold), ("warm", warm)] {
            bench.row("multi-stream", format!("streams={count} {name}"), value, "us/round")?;
        }
    }
    Ok(())
}

/// What a stream fills: apart from the allocator's memory.
fn work(bench: &Bench<'_>, stream: &CudaStream) -> Outcome<DeviceUVector<u8>> {
    let bytes = if bench.extent == Extent::Full { 256 << 20 } else { 64 << 10 };
    Ok(DeviceUVector::zeroed_in(bytes, stream, &CudaMemoryResource::new())?)
}

/// Microseconds of a round.
fn round(
    resource: &AnyResource,
    streams: &[CudaStream],
    work: &mut [DeviceUVector<u8>],
) -> Outcome<f64> {
    let layout = layout(8)?;
    Device::synchronize_current()?;
    let clock = Instant::now();
    for block in 0..BLOCKS {
        let at = block % streams.len();
        let (stream, work) = (&streams[at], &mut work[at]);
        let block = resource.allocate(stream, layout)?;
        work.fill(1)?;
        // SAFETY: allocated just now with this layout on this stream; no work uses it.
        unsafe { resource.deallocate(stream, block, layout) };
    }
    Device::synchronize_current()?;
    Ok(clock.elapsed().as_secs_f64() * 1e6)
}
