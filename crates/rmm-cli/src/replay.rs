//! Replays on the devices of this program: timed ones, and ones whose order is checked.

mod check;

use rmm_core::Error;
use rmm_report::resource::ReplayResource;
use rmm_report::results::ResourceResult;
use rmm_report::trace::Trace;

use crate::device::OpenDevice;
pub use check::{Checked, check};
pub use rmm_report::replay::{ReplayOptions, ReplaySubject, passes, trace_result};

/// Replays a trace against one resource: [`rmm_report::replay::replay`] on a device of this
/// program.
///
/// # Errors
/// If the resource or its streams cannot be made.
pub fn replay(
    device: &OpenDevice,
    trace: &Trace,
    resource: &ReplayResource,
    options: ReplayOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<ResourceResult, Error> {
    rmm_report::replay::replay(&device.handle(), trace, resource, options, progress)
}
