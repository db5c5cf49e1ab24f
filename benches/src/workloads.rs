//! What `protocol` times: each workload prints its figures of one allocator.
//!
//! `peers/workloads.hpp` does the same for the allocators of others.

mod adaptors;
mod latency;
mod pairs;
mod random;
mod replay;
mod threads;

use std::error::Error;
use std::time::Duration;

use rmm_cli::device::OpenDevice;
use rmm_cli::replay::Subject;
use rmm_core::{CudaStream, Device, StreamFlags};

use crate::allocators::{Kind, Serves, Start};
use crate::rows::Row;

pub use replay::Recorded;

/// What a workload returns.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A workload by its name on the command line.
#[derive(Debug)]
pub struct Workload {
    /// The name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    run: fn(&mut Bench<'_>) -> Outcome,
    for_pairs: bool,
    for_little: bool,
    /// The one kind of allocator that it is for, if it is not for all.
    for_one: Option<&'static str>,
}

/// Every workload, in the order in which they are run.
pub const WORKLOADS: &[Workload] = &[
    Workload { for_pairs: true, ..all("pair", "allocate and free of one size", pairs::pair) },
    Workload {
        for_one: Some("pool"),
        ..all("adaptor", "the same through each adaptor", adaptors::adaptor_pairs)
    },
    Workload { for_little: false, ..all("holes", "the same beside free blocks", pairs::holes) },
    all("random", "random calls on one and on eight streams", random::random),
    all("allocate", "percentiles of one allocation among random calls", random::allocate),
    all("threads", "random calls of up to 16 threads at once", threads::threads),
    Workload { for_little: false, ..all("handoff", "freed on another thread", pairs::handoff) },
    Workload {
        for_little: false,
        ..all("latency", "the longest calls beside many blocks and streams", latency::latency)
    },
    Workload { for_little: false, ..all("replay", "recorded programs", replay::replay) },
];

const fn all(
    name: &'static str,
    about: &'static str,
    run: fn(&mut Bench<'_>) -> Outcome,
) -> Workload {
    Workload { name, about, run, for_pairs: false, for_little: true, for_one: None }
}

impl Workload {
    /// Whether it can be asked of this kind of allocator.
    pub fn suits(&self, kind: &Kind) -> bool {
        let serves = match kind.serves {
            Serves::Everything => true,
            Serves::Pairs => self.for_pairs,
            Serves::Little => self.for_little,
        };
        serves && self.for_one.is_none_or(|name| name == kind.name)
    }

    /// Times it.
    ///
    /// # Errors
    /// If the allocator cannot be made, an allocation fails, or a row cannot be written.
    pub fn run(&self, bench: &mut Bench<'_>) -> Outcome {
        (self.run)(bench)
    }
}

/// How much is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All of it: five repetitions after one that is not counted.
    Full,
    /// Just enough to see that everything runs; the figures say nothing.
    Quick,
}

impl Extent {
    pub(crate) fn scaled(self, count: usize) -> usize {
        match self {
            Self::Full => count,
            Self::Quick => (count / 50).max(20),
        }
    }

    fn repetitions(self) -> usize {
        if self == Self::Full { 5 } else { 1 }
    }
}

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
    fn make(&self, start: Start) -> Outcome<Subject> {
        Ok(self.kind.make(start)?)
    }

    fn row(
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
    fn waits_row(&mut self, params: &str, allocator: &Subject, before: Waits) -> Outcome {
        let Some(Waits { allocations, waits }) = Waits::of(allocator) else { return Ok(()) };
        let allocations = allocations - before.allocations;
        let waits = 1000.0 * ratio(waits - before.waits, allocations);
        self.row("waits", params, waits, "per 1000 allocations")
    }

    /// Whether the lists are to be short.
    fn is_little(&self) -> bool {
        self.kind.serves == Serves::Little
    }

    /// Does the work once uncounted and then several times; the median of what it returned. Between
    /// them the device comes to rest.
    fn median_of(&self, mut work: impl FnMut() -> Outcome<f64>) -> Outcome<f64> {
        let mut values = Vec::new();
        for repetition in 0..=self.extent.repetitions() {
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
fn median(mut values: Vec<f64>) -> f64 {
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
struct Waits {
    allocations: u64,
    waits: u64,
}

impl Waits {
    fn of(allocator: &Subject) -> Option<Self> {
        let statistics = allocator.statistics()?;
        let waits = statistics.stream_waits + statistics.host_waits;
        Some(Self { allocations: statistics.allocations, waits })
    }
}

fn new_stream() -> Result<CudaStream, rmm_core::Error> {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)
}

/// Nanoseconds a call.
fn nanos_per(time: Duration, calls: u64) -> f64 {
    time.as_secs_f64() * 1e9 / to_f64(calls)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { to_f64(part) / to_f64(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^53")]
fn to_f64(number: u64) -> f64 {
    number as f64
}
