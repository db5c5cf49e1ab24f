//! Workload: vectors of many sizes, made and dropped, and vectors on several streams.

use std::time::Instant;

use rmm_containers::DeviceUVector;
use rmm_core::{AnyResource, CudaStream, Device};

use super::bench::{Bench, nanos_per, new_stream};
use super::extent::Extent;
use crate::allocators::Start;
use crate::outcome::Outcome;

/// From ten thousand elements of four bytes to a billion, as `UVECTOR_BENCH` of RMM.
pub(super) fn vector(bench: &mut Bench<'_>) -> Outcome {
    let vectors = bench.extent.scaled(if bench.is_little() { 100 } else { 10_000 });
    for exponent in 4..=9 {
        if bench.extent == Extent::Quick && exponent > 6 {
            break;
        }
        let (allocator, stream) = (bench.make(Start::Full)?, new_stream()?);
        let elements = 10_usize.pow(exponent);
        let value = bench.median_of(|| {
            let clock = Instant::now();
            for _ in 0..vectors {
                let resource = &allocator.resource;
                drop(DeviceUVector::<i32>::uninit_in(elements, &stream, resource)?);
            }
            Ok(nanos_per(clock.elapsed(), vectors as u64))
        })?;
        bench.row("vector", format!("elements=1e{exponent}"), value, "ns/vector")?;
    }
    on_streams(bench)
}

/// A vector that is filled on one stream and copied on three others, again and again.
fn on_streams(bench: &mut Bench<'_>) -> Outcome {
    let rounds = bench.extent.scaled(if bench.is_little() { 100 } else { 2_000 });
    for exponent in [5, 6] {
        if bench.extent == Extent::Quick && exponent > 5 {
            break;
        }
        let allocator = bench.make(Start::Full)?;
        let streams = [new_stream()?, new_stream()?, new_stream()?, new_stream()?];
        let value = bench.median_of(|| {
            let clock = Instant::now();
            for _ in 0..rounds {
                copied(&allocator.resource, &streams, 10_usize.pow(exponent))?;
            }
            Device::synchronize_current()?;
            Ok(nanos_per(clock.elapsed(), rounds as u64))
        })?;
        bench.row("vector", format!("streams=4 elements=1e{exponent}"), value, "ns/round")?;
    }
    Ok(())
}

fn copied(resource: &AnyResource, streams: &[CudaStream; 4], elements: usize) -> Outcome {
    let [own, others @ ..] = streams;
    let mut source = DeviceUVector::<i32>::uninit_in(elements, own, resource)?;
    source.fill(1)?;
    let copy = |stream| source.as_slice().to_device_in(stream, resource);
    let copies = others.iter().map(copy).collect::<Result<Vec<_>, _>>()?;
    drop(copies);
    Ok(())
}
