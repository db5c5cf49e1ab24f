//! The smallest memory in which a recorded program runs, and the configuration that needs no more.
//!
//! A replay on a device with so much memory says whether a program runs there. [`tune`] makes many
//! of them, in a [`Laboratory`], over a few [`Configuration`]s:
//!
//! 1. For each configuration an estimate: sizes that grow until one is enough, and halves between.
//! 2. More memory does not always fit better. So the best ones are tried at every size from the
//!    program's own peak upwards, and the first size that is enough is taken.
//! 3. That size is proven: under further [paces](Pace) of the device's work it is enough, too, and
//!    2 % less is not.
//!
//! Nothing here prints: [`Tuning`] is plain data.

mod answer;
mod configuration;
mod curves;
mod devices;
mod error;
mod estimate;
mod fit;
mod laboratory;
mod markup;
mod memory;
mod page;
mod parallel;
mod picture;
mod progress;
mod proof;
mod scan;
mod search;
mod trials;

pub use answer::{Answer, ConfigurationResult, Less, Point, Tuning};
pub use configuration::{Configuration, MEMORY_PLACEHOLDER};
pub use devices::by_device;
pub use error::TuneError;
pub use laboratory::{Laboratory, Pace};
pub use memory::PAGE;
pub use page::render;
pub use progress::Progress;

use crate::trace::Trace;
use trials::Trials;

/// Finds the smallest memory for each configuration, and the best of them; or, with `memory`, which
/// of them run in that much, and the one with the fewest waits. If none does, what would do.
///
/// # Errors
/// If no request of the trace got memory, or the device cannot be used.
pub fn tune(
    laboratory: &impl Laboratory,
    trace: &Trace,
    configurations: &[Configuration],
    memory: Option<u64>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Tuning, TuneError> {
    if trace.peak_live_aligned == 0 {
        return Err(TuneError::NoMemory);
    }
    let steps = 2 * configurations.len() as u64 + 2;
    let trials = Trials::new(laboratory, trace, configurations, steps, progress);
    let mut tuning = Tuning::of(trace);
    if let Some(memory) = memory {
        tuning.given_memory_bytes = Some(memory);
        fit::fit(&trials, memory, &mut tuning)?;
        if tuning.answer.is_some() {
            return Ok(tuning);
        }
    }
    search::search(&trials, &mut tuning)?;
    curves::draw(&trials, &mut tuning)?;
    Ok(tuning)
}

#[cfg(test)]
#[path = "tune/tests.rs"]
mod tests;
