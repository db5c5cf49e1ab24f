//! Workload: copies of a buffer within a device and between two, by the containers and by the
//! driver's own call.

use std::time::Instant;

use rmm_containers::DeviceBuffer;
use rmm_core::{Device, Error, copy};
use rmm_resources::grant_access;

use super::bench::{Bench, new_stream, to_f64};
use super::extent::Extent;
use crate::allocators::Start;
use crate::outcome::Outcome;
use crate::setup::say;

/// Copies between two synchronizations.
const COPIES: u32 = 10;

/// One row for each pair of devices and each way to copy; those between two devices where there are
/// two that can use each other's memory.
pub(super) fn copies(bench: &mut Bench<'_>) -> Outcome {
    let home = Device::current()?;
    within(bench, home, home)?;
    let others = Device::all()?.filter(|&device| device != home);
    let mut peers = others.filter(|&other| are_peers(home, other).unwrap_or(false));
    let Some(other) = peers.next() else {
        say("copies: no second device that can use the memory of this one");
        return Ok(());
    };
    within(bench, home, other)?;
    within(bench, other, home)
}

fn are_peers(one: Device, other: Device) -> Result<bool, Error> {
    Ok(one.can_access_peer(other)? && other.can_access_peer(one)?)
}

/// Copies from one device to the other, on a stream of the second, in turns.
fn within(bench: &mut Bench<'_>, from: Device, to: Device) -> Outcome {
    let bytes = if bench.extent == Extent::Full { 256 << 20 } else { 1 << 20 };
    let source = {
        let _current = from.make_current()?;
        let resource = bench.make(Start::Empty)?.resource;
        if from != to {
            grant_access(&resource, to)?;
        }
        let source = DeviceBuffer::zeroed_in(bytes, &new_stream()?, &resource)?;
        Device::synchronize_current()?;
        source
    };
    let _current = to.make_current()?;
    let resource = bench.make(Start::Empty)?.resource;
    let stream = new_stream()?;
    let mut target = DeviceBuffer::zeroed_in(bytes, &stream, &resource)?;
    let [mut of_container, mut of_driver] = [const { Vec::new() }; 2];
    for turn in 0..=bench.extent.repetitions() {
        let container = seconds(|| target.copy_from(source.as_slice()), || stream.synchronize())?;
        let (to, from) = (target.as_ptr(), source.as_ptr());
        // SAFETY: both buffers are as long and live, the source was written before, and all copies
        // into the target are on this stream.
        let by_driver = || unsafe { copy::device_to_device(to, from, bytes, &stream) };
        let driver = seconds(by_driver, || stream.synchronize())?;
        if turn > 0 {
            of_container.push(container);
            of_driver.push(driver);
        }
    }
    let between = format!("{} to {}", from.ordinal(), to.ordinal());
    for (name, times) in [("container", of_container), ("cuMemcpyAsync", of_driver)] {
        let rate = to_f64(bytes as u64) / super::bench::median(times) / 1e9;
        bench.row("copies", format!("{between} {name}"), rate, "GB/s")?;
    }
    Ok(())
}

/// Seconds a copy.
fn seconds(
    mut copy: impl FnMut() -> Result<(), Error>,
    wait: impl Fn() -> Result<(), Error>,
) -> Result<f64, Error> {
    wait()?;
    let begin = Instant::now();
    (0..COPIES).try_for_each(|_| copy())?;
    wait()?;
    Ok(begin.elapsed().as_secs_f64() / f64::from(COPIES))
}
