//! Checked replay: every block is used, and the software device reports uses that are not ordered.

use rmm_core::{AnyResource, CudaStream, DevicePtr, Error};
use rmm_report::replay::{ReplayOptions, Work, replay_with_work};
use rmm_report::resource::ReplayResource;
use rmm_report::trace::Trace;
use rmm_sim::{Kernel, Machine, Violation};
use rmm_sys::CuDevicePtr;

use crate::device::OpenDevice;

/// The result of a checked replay.
#[derive(Debug)]
#[non_exhaustive]
pub struct Checked {
    /// How many events were replayed in one repeat.
    pub events: u64,
    /// How many of them failed, in the repeat in which the most did.
    pub failures: u64,
    /// The error of the first failure, with its line in the trace.
    pub first_failure: Option<String>,
    /// How often the resource made one stream wait for another, if it counts that.
    pub stream_waits: u64,
    /// Uses, allocations and frees that are not ordered after an earlier use; a machine keeps the
    /// first thousand.
    pub violations: Vec<Violation>,
}

/// Replays a trace against one resource, with work on every block: on its stream once it is
/// allocated, and on the stream that frees it just before. Where that is another stream, it is made
/// to wait for the first, as a right program does.
///
/// `device` comes from [`OpenDevice::checked`]. `progress` is called with the number of events done
/// since its last call; each repeat does as many as the trace has.
///
/// # Errors
/// The errors of [`replay`](super::replay()), and one if the device checks nothing.
pub fn check(
    device: &OpenDevice,
    trace: &Trace,
    resource: &ReplayResource,
    options: ReplayOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Checked, Error> {
    check_on(device, trace, options, progress, || resource.build())
}

fn check_on(
    device: &OpenDevice,
    trace: &Trace,
    options: ReplayOptions,
    progress: &(dyn Fn(u64) + Sync),
    make: impl FnOnce() -> Result<AnyResource, Error>,
) -> Result<Checked, Error> {
    let machine = device.machine().ok_or_else(|| {
        Error::invalid_argument("check", "only the software device checks the order of uses")
    })?;
    let work = Kernels(machine.clone());
    // The resource is gone afterwards: its memory goes back to the driver, and that has to be in
    // order, too.
    let worked = replay_with_work(&device.handle(), trace, options, progress, &work, make)?;
    machine.run_all();
    Ok(Checked {
        events: trace.events.len() as u64,
        failures: worked.failures,
        first_failure: worked.first_failure,
        stream_waits: worked.stream_waits,
        violations: machine.violations(),
    })
}

/// Kernels that declare their accesses and touch no byte.
#[derive(Debug)]
struct Kernels(Machine);

impl Work for Kernels {
    fn enqueue(
        &self,
        name: &'static str,
        stream: &CudaStream,
        block: DevicePtr,
        bytes: usize,
    ) -> Result<(), Error> {
        let kernel = Kernel::new(name, |_| ()).writes(CuDevicePtr(block.0), bytes);
        // SAFETY: the kernel touches no byte, nor does the replay, which allocates and frees.
        let launched = unsafe { self.0.launch_on_shared(stream.as_raw(), kernel) };
        launched.map_err(|code| Error::driver("kernel launch", code))
    }
}

#[cfg(test)]
#[path = "check/tests.rs"]
mod tests;
