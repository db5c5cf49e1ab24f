//! Workloads: a pool over virtual memory that sleeps and wakes up, and pinned memory that comes up.
//!
//! What is asked of them on an H200: 64 GiB fall asleep within 1 s and wake up within 2 s if their
//! contents are discarded; 8 GiB of contents go at 80 % of the bus's speed into pinned memory that
//! is there.

use std::alloc::Layout;
use std::time::{Duration, Instant};

use rmm_adaptors::{Contents, PoolMemoryResource, SleepOptions};
use rmm_core::{
    AnySynchronousResource, Device, DevicePtr, Error, HostDeviceAccessible, SynchronousResource,
    copy,
};
use rmm_resources::{
    PinnedHostMemoryResource, RegisteredHostMemoryResource, VirtualMemoryResource,
};

use super::bench::{Bench, median, new_stream, to_f64};
use super::extent::Extent;
use crate::outcome::Outcome;

const PAGE: u64 = 2 << 20;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

type Pool = PoolMemoryResource;

fn layout(bytes: u64) -> Outcome<Layout> {
    Ok(Layout::from_size_align(usize::try_from(bytes)?, 256)?)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Bytes a nanosecond.
fn speed(bytes: u64, time: Duration) -> f64 {
    to_f64(bytes) / (time.as_secs_f64() * 1e9)
}

/// A pool of one block that is live.
fn pool_of(bytes: u64) -> Outcome<(Pool, DevicePtr)> {
    let pool = Pool::builder(VirtualMemoryResource::new()?).initial_size(bytes).build()?;
    let block = pool.allocate_sync(layout(bytes)?)?;
    Ok((pool, block))
}

/// So much, or what most of the device's free memory allows.
fn at_most(bytes: u64, extent: Extent) -> Result<u64, Error> {
    let bytes = if extent == Extent::Quick { 32 * MIB } else { bytes };
    Ok(bytes.min(Device::memory_info()?.free / 10 * 8) / PAGE * PAGE)
}

/// Sleep and wake-up with contents discarded, and kept.
pub(super) fn sleep(bench: &mut Bench<'_>) -> Outcome {
    discard(bench)?;
    keep(bench)
}

fn discard(bench: &mut Bench<'_>) -> Outcome {
    let bytes = at_most(64 * GIB, bench.extent)?;
    let (pool, block) = pool_of(bytes)?;
    let (mut asleep, mut awake) = (Vec::new(), Vec::new());
    for _ in 0..=bench.extent.repetitions() {
        let clock = Instant::now();
        // SAFETY: no work uses the block, and its contents are not read.
        unsafe { pool.sleep(Contents::Discard) }?;
        asleep.push(millis(clock.elapsed()));
        let clock = Instant::now();
        pool.wake()?;
        awake.push(millis(clock.elapsed()));
    }
    // SAFETY: allocated by `pool_of` with this layout, and not used.
    unsafe { pool.deallocate_sync(block, layout(bytes)?) };
    let pieces = pool.statistics().upstream_allocations;
    let size = format!("MiB={}", bytes / MIB);
    bench.row("sleep", format!("{size} discard asleep"), median(asleep), "ms")?;
    bench.row("sleep", format!("{size} discard awake"), median(awake), "ms")?;
    bench.row("sleep", format!("{size} upstream blocks"), to_f64(pieces), "blocks")
}

fn keep(bench: &mut Bench<'_>) -> Outcome {
    let bytes = at_most(8 * GIB, bench.extent)?;
    let pinned = RegisteredHostMemoryResource::new();
    let pinned = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(pinned);
    let pinned = pinned.initial_size(bytes).maximum_size(bytes).build()?;
    let bus = bus_speed(&pinned, bytes, bench.extent.repetitions())?;
    let (pool, block) = pool_of(bytes)?;
    let (mut asleep, mut awake) = (Vec::new(), Vec::new());
    for _ in 0..=bench.extent.repetitions() {
        let options = SleepOptions::new(Contents::ToHost).wait_for_work(true);
        let options = options.host_memory(AnySynchronousResource::new(pinned.clone()));
        let clock = Instant::now();
        // SAFETY: no work uses the block meanwhile.
        unsafe { pool.sleep_with(options) }?;
        asleep.push(speed(bytes, clock.elapsed()));
        let clock = Instant::now();
        pool.wake()?;
        awake.push(speed(bytes, clock.elapsed()));
    }
    // SAFETY: allocated by `pool_of` with this layout, and not used.
    unsafe { pool.deallocate_sync(block, layout(bytes)?) };
    let size = format!("MiB={}", bytes / MIB);
    let (asleep, awake) = (median(asleep), median(awake));
    bench.row("sleep", format!("{size} contents asleep"), asleep, "GB/s")?;
    bench.row("sleep", format!("{size} contents awake"), awake, "GB/s")?;
    bench.row("sleep", format!("{size} one copy to the host"), bus, "GB/s")?;
    bench.row("sleep", format!("{size} share of the bus"), asleep / bus, "x")
}

/// One copy of all bytes to the host.
fn bus_speed(pinned: &impl SynchronousResource, bytes: u64, repetitions: usize) -> Outcome<f64> {
    let layout = layout(bytes)?;
    let (pool, source) = pool_of(bytes)?;
    let target = pinned.allocate_sync(layout)?;
    let (stream, mut speeds) = (new_stream()?, Vec::new());
    for _ in 0..=repetitions {
        let clock = Instant::now();
        let to = std::ptr::with_exposed_provenance_mut(usize::try_from(target.0)?);
        // SAFETY: both blocks are as long, and no one else uses them.
        unsafe { copy::device_to_host(to, source, layout.size(), &stream) }?;
        stream.synchronize()?;
        speeds.push(speed(bytes, clock.elapsed()));
    }
    // SAFETY: allocated above with this layout; the copies have completed.
    unsafe { pinned.deallocate_sync(target, layout) };
    // SAFETY: as above, by `pool_of`.
    unsafe { pool.deallocate_sync(source, layout) };
    Ok(median(speeds))
}

/// A GiB of pinned memory: from `cudaHostAlloc`, and touched in parallel and registered.
pub(super) fn pinned(bench: &mut Bench<'_>) -> Outcome {
    let bytes = if bench.extent == Extent::Quick { 32 * MIB } else { GIB };
    come_up(bench, "cudaHostAlloc", bytes, &PinnedHostMemoryResource::new())?;
    let registered = RegisteredHostMemoryResource::new();
    come_up(bench, "registered", bytes, &registered)
}

fn come_up(
    bench: &mut Bench<'_>,
    name: &str,
    bytes: u64,
    resource: &impl SynchronousResource,
) -> Outcome {
    let layout = layout(bytes)?;
    let value = bench.median_of(|| {
        let clock = Instant::now();
        let block = resource.allocate_sync(layout)?;
        let time = millis(clock.elapsed());
        // SAFETY: allocated just now with this layout, and not used.
        unsafe { resource.deallocate_sync(block, layout) };
        Ok(time)
    })?;
    bench.row("pinned", format!("{name} MiB={}", bytes / MIB), value, "ms")
}
