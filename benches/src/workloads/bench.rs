//! One allocator under test, and helpers of the workloads.

use std::time::{Duration, Instant};

use rmm_cli::device::OpenDevice;
use rmm_cli::replay::ReplaySubject;
use rmm_core::{CudaStream, Device, StreamFlags};

use super::extent::Extent;
use super::recorded::Recorded;
use crate::allocators::{Kind, Serves, Start};
use crate::outcome::Outcome;
use crate::rows::Row;

/// One allocator under test.
pub struct Bench<'a> {
    /// The device, current on this thread.
    pub device: &'a OpenDevice,
    /// The allocator.
    pub kind: &'a Kind,
    /// How much is done.
    pub extent: Extent,
    /// What `replay` replays.
    pub recorded: &'a [Recorded],
    /// Where the figures go.
    pub write: &'a mut dyn FnMut(&Row) -> Outcome,
}

impl Bench<'_> {
    pub(super) fn make(&self, start: Start) -> Outcome<ReplaySubject> {
        Ok(self.kind.make(start)?)
    }

    pub(super) fn row(
        &mut self,
        workload: &str,
        params: impl Into<String>,
        value: f64,
        unit: &str,
    ) -> Outcome {
        (self.write)(&Row {
            workload: workload.to_owned(),
            allocator: self.kind.name.to_owned(),
            params: params.into(),
            value,
            unit: unit.to_owned(),
        })
    }

    /// How often a pool that counts had to wait, one stream for another or the program for the
    /// device, since `before`.
    pub(super) fn waits_row(
        &mut self,
        params: &str,
        allocator: &ReplaySubject,
        before: Waits,
    ) -> Outcome {
        let Some(Waits { allocations, waits }) = Waits::of(allocator) else { return Ok(()) };
        let allocations = allocations - before.allocations;
        let waits = 1000.0 * ratio(waits - before.waits, allocations);
        self.row("waits", params, waits, "per 1000 allocations")
    }

    /// Whether the lists are to be short.
    pub(super) fn is_little(&self) -> bool {
        self.kind.serves == Serves::Little
    }

    /// Does the work once uncounted and then several times; the median of what it returned. Between
    /// them the device comes to rest.
    pub(super) fn median_of(&self, work: impl FnMut() -> Outcome<f64>) -> Outcome<f64> {
        self.median_within(Duration::MAX, work)
    }

    /// The same, with fewer repetitions if they take more than some seconds: for work of many
    /// threads, which makes slow allocators slower.
    pub(super) fn median_of_a_while(&self, work: impl FnMut() -> Outcome<f64>) -> Outcome<f64> {
        self.median_within(Duration::from_secs(4), work)
    }

    fn median_within(
        &self,
        limit: Duration,
        mut work: impl FnMut() -> Outcome<f64>,
    ) -> Outcome<f64> {
        let mut values = Vec::new();
        let begin = Instant::now();
        for repetition in 0..=self.extent.repetitions() {
            if repetition > 1 && begin.elapsed() > limit {
                break;
            }
            let value = work()?;
            if repetition > 0 {
                values.push(value);
            }
            Device::synchronize_current()?;
        }
        Ok(median(values))
    }
}

/// The list is not empty.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// A pool's counters.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits {
    pub(super) allocations: u64,
    pub(super) waits: u64,
}

impl Waits {
    pub(super) fn of(allocator: &ReplaySubject) -> Option<Self> {
        let statistics = allocator.statistics()?;
        let waits = statistics.stream_waits + statistics.host_waits;
        Some(Self { allocations: statistics.allocations, waits })
    }
}

pub(super) fn new_stream() -> Result<CudaStream, rmm_core::Error> {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)
}

/// Nanoseconds a call.
pub(super) fn nanos_per(time: Duration, calls: u64) -> f64 {
    time.as_secs_f64() * 1e9 / to_f64(calls)
}

pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { to_f64(part) / to_f64(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^53")]
pub(super) fn to_f64(number: u64) -> f64 {
    number as f64
}
